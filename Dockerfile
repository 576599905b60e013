# One image for every process: web, workers, beat and `manage.py`. docker-compose.yml says which runs what.

# By digest, where you pin it: --build-arg PYTHON_IMAGE=python:3.12-slim@sha256:… (SECURITY.md).
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /app
# No pip inside: nothing is installed after this stage.
RUN python -m venv --without-pip /venv
COPY locks/runtime.txt locks/
RUN pip --python /venv/bin/python install --no-cache-dir --require-hashes --only-binary :all: -r locks/runtime.txt
# .dockerignore lists what this copies.
COPY . .
# The key lives for this one command: it signs nothing, and neither the environment nor the files of the image hold it.
RUN ENV_FILE= SECRET_KEY=for-this-step-only /venv/bin/python manage.py collectstatic --noinput \
    && rm -r locks \
    && /venv/bin/python -m compileall -q .

FROM ${PYTHON_IMAGE}
# Compiled here, because the running container can write nothing down: without this, each process and each health check
# would compile the standard library anew.
RUN python -m compileall -q -x '/(test|idlelib|tkinter|turtledemo|ensurepip|lib2to3|site-packages)/' \
        /usr/local/lib/python3.12 \
    && useradd --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin webhooks
COPY --from=build /venv /venv
# Owned by root, so the platform cannot change its own code.
COPY --from=build /app /app
# ENV_FILE: settings come from the environment alone.
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 ENV_FILE=
WORKDIR /app
USER 10001:10001
EXPOSE 8000
# No entry point and no shell: SIGTERM reaches the process. GRANIAN_WORKERS says how many processes serve.
CMD ["python", "-m", "webhooks_platform.web.lasting_granian", "--interface", "wsgi", "webhooks_platform.wsgi:application", \
     "--host", "0.0.0.0", "--port", "8000", "--no-ws", "--no-access-log", \
     "--http", "1", "--backlog", "1024", "--backpressure", "500", "--blocking-threads", "512", \
     "--respawn-failed-workers", "--respawn-interval", "0.5", "--workers-kill-timeout", "5"]
