"""Traces by OpenTelemetry, off by default: one trace from the producer's request through accept and attempt to the
receiver. Nothing here is imported from OpenTelemetry before `exporting.tracer` finds it switched on: docs/traces.md."""
