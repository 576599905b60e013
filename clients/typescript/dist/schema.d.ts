export interface paths {
    "/api/v1/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        get: operations["get_index"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/audit/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        get: operations["list_audit_entries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/consumers/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        get: operations["list_consumers"];
        put?: never;
        post: operations["create_consumer"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/consumers/{consumer}/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        get: operations["get_consumer"];
        put?: never;
        post?: never;
        delete: operations["delete_consumer"];
        options?: never;
        head?: never;
        patch: operations["update_consumer"];
        trace?: never;
    };
    "/api/v1/consumers/{consumer}/endpoints/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        get: operations["list_endpoints"];
        put?: never;
        post: operations["create_endpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/consumers/{consumer}/feed/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        get: operations["read_feed"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/consumers/{consumer}/keys/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        get: operations["list_keys"];
        put?: never;
        post: operations["create_key"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/consumers/{consumer}/keys/{key}/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
                key: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["revoke_key"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/consumers/{consumer}/keys/{key}/rotate/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
                key: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["rotate_key"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/consumers/{consumer}/portal-link/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["create_portal_link"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/consumers/{consumer}/stats/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        get: operations["get_consumer_stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/deliveries/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        get: operations["list_deliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/deliveries/{delivery}/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                delivery: string;
            };
            cookie?: never;
        };
        get: operations["get_delivery"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/deliveries/{delivery}/replay/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                delivery: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["replay_delivery"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/endpoints/{endpoint}/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        get: operations["get_endpoint"];
        put?: never;
        post?: never;
        delete: operations["delete_endpoint"];
        options?: never;
        head?: never;
        patch: operations["update_endpoint"];
        trace?: never;
    };
    "/api/v1/endpoints/{endpoint}/check-up/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        get: operations["get_check_up"];
        put?: never;
        post: operations["run_check_up"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/endpoints/{endpoint}/deliveries/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        get: operations["list_endpoint_deliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/endpoints/{endpoint}/pause/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["pause_endpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/endpoints/{endpoint}/resume/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["resume_endpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/endpoints/{endpoint}/rotate-secret/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["rotate_secret"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/endpoints/{endpoint}/stats/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        get: operations["get_endpoint_stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/endpoints/{endpoint}/test/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["test_endpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/event-types/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        get: operations["list_event_types"];
        put?: never;
        post: operations["create_event_type"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/event-types/{name}/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        get: operations["get_event_type"];
        put?: never;
        post?: never;
        delete: operations["delete_event_type"];
        options?: never;
        head?: never;
        patch: operations["update_event_type"];
        trace?: never;
    };
    "/api/v1/events/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        get: operations["list_events"];
        put?: never;
        post: operations["emit_event"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events/{event}/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                event: string;
            };
            cookie?: never;
        };
        get: operations["get_event"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events/{event}/deliveries/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                event: string;
            };
            cookie?: never;
        };
        get: operations["list_event_deliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events/batch/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["emit_events"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/replays/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        get: operations["list_replays"];
        put?: never;
        post: operations["create_replay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/replays/{replay}/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                replay: string;
            };
            cookie?: never;
        };
        get: operations["get_replay"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/replays/{replay}/cancel/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                replay: string;
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["cancel_replay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/signature-profiles/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        get: operations["list_signature_profiles"];
        put?: never;
        post: operations["create_signature_profile"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/signature-profiles/{profile}/": {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                profile: string;
            };
            cookie?: never;
        };
        get: operations["get_signature_profile"];
        put?: never;
        post?: never;
        delete: operations["delete_signature_profile"];
        options?: never;
        head?: never;
        patch: operations["update_signature_profile"];
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Attempt: {
            duration_ms: number;
            error_detail: string | null;
            error_kind: string | null;
            id: string;
            number: number;
            request_headers: string[][] | null;
            response_body: string | null;
            response_headers: string[][] | null;
            /** Format: date-time */
            started_at: string;
            status_code: number | null;
            url: string;
        };
        AuditEntry: {
            action: string;
            actor: string;
            actor_id: string;
            /** @enum {string} */
            actor_kind: "user" | "portal" | "key" | "command";
            /** Format: date-time */
            at: string;
            consumer: string | null;
            count: number;
            detail: string;
            id: string;
            target: string | null;
            why: string;
        };
        AuditEntryPage: {
            /** Format: uri */
            next: string | null;
            results: components["schemas"]["AuditEntry"][];
        };
        Backlog: {
            detail: string;
            pending: number;
        };
        Batch: {
            results: components["schemas"]["BatchResult"][];
        };
        BatchRequest: {
            events: components["schemas"]["EventRequest"][];
        };
        BatchResult: {
            event?: components["schemas"]["Event"];
            problem?: components["schemas"]["Problem"];
            /** @enum {string} */
            status: "accepted" | "duplicate" | "refused";
        };
        Bucket: {
            /** Format: date-time */
            at: string;
            attempts: number;
            dead: number;
            delivered: number;
            duration_ms: components["schemas"]["Percentiles"];
            failed: number;
            latency_ms: components["schemas"]["Percentiles"];
            success_rate: number | null;
        };
        CheckUp: {
            /** Format: date-time */
            checked_at: string;
            endpoint: string;
            findings: components["schemas"]["Finding"][];
            signature_scheme: string;
            url: string;
            /** @enum {string} */
            verdict: "pass" | "warn" | "fail" | "unknown";
        };
        Consumer: {
            contact_email: string;
            /** Format: date-time */
            created_at: string;
            id: string;
            metadata: {
                [key: string]: string;
            };
            name: string;
            uid: string | null;
        };
        ConsumerBucket: {
            accepted: number;
            /** Format: date-time */
            at: string;
            attempts: number;
            dead: number;
            delivered: number;
            duration_ms: components["schemas"]["Percentiles"];
            failed: number;
            latency_ms: components["schemas"]["Percentiles"];
            success_rate: number | null;
        };
        ConsumerChangeRequest: {
            contact_email?: string;
            metadata?: {
                [key: string]: string;
            };
            name?: string;
            uid?: string | null;
            why?: string;
        };
        ConsumerFigures: {
            accepted: number;
            attempts: number;
            dead: number;
            delivered: number;
            duration_ms: components["schemas"]["Percentiles"];
            failed: number;
            latency_ms: components["schemas"]["Percentiles"];
            success_rate: number | null;
        };
        ConsumerPage: {
            /** Format: uri */
            next: string | null;
            results: components["schemas"]["Consumer"][];
        };
        ConsumerRequest: {
            contact_email?: string;
            metadata?: {
                [key: string]: string;
            };
            name?: string;
            uid?: string | null;
            why?: string;
        };
        ConsumerStats: {
            buckets: components["schemas"]["ConsumerBucket"][];
            consumer: string;
            /** Format: date-time */
            since: string;
            /** @enum {string} */
            span: "1h" | "24h" | "7d" | "30d";
            step_seconds: number;
            total: components["schemas"]["ConsumerFigures"];
        };
        Delivery: {
            attempt_count: number;
            /** Format: date-time */
            created_at: string;
            dead_reason: string | null;
            endpoint: string;
            event: string;
            /** Format: date-time */
            finished_at: string | null;
            id: string;
            /** Format: date-time */
            next_attempt_at: string | null;
            /** @enum {string} */
            state: "pending" | "in_flight" | "delivered" | "dead";
        };
        DeliveryDetail: {
            attempt_count: number;
            attempts?: components["schemas"]["Attempt"][];
            /** Format: date-time */
            created_at: string;
            dead_reason: string | null;
            endpoint: string;
            event: string;
            /** Format: date-time */
            finished_at: string | null;
            id: string;
            /** Format: date-time */
            next_attempt_at: string | null;
            /** @enum {string} */
            state: "pending" | "in_flight" | "delivered" | "dead";
        };
        DeliveryPage: {
            /** Format: uri */
            next: string | null;
            results: components["schemas"]["Delivery"][];
        };
        Endpoint: {
            consumer: string;
            /** Format: date-time */
            created_at: string;
            description: string;
            disabled_reason: string | null;
            event_types: string[];
            headers: string[];
            id: string;
            max_in_flight: number;
            metadata: {
                [key: string]: string;
            };
            ordered: boolean;
            /** @enum {string} */
            payload_mode: "full" | "thin" | "cloudevents" | "cloudevents_binary";
            rate_limit_per_second: number | null;
            retry_schedule: number[] | null;
            signature_scheme: string;
            /** @enum {string} */
            status: "active" | "paused" | "disabled";
            timeout_seconds: number;
            /** Format: uri */
            url: string;
        };
        EndpointChangeRequest: {
            description?: string;
            event_types?: string[];
            headers?: {
                [key: string]: string;
            };
            max_in_flight?: number;
            metadata?: {
                [key: string]: string;
            };
            ordered?: boolean;
            /** @enum {string} */
            payload_mode?: "full" | "thin" | "cloudevents" | "cloudevents_binary";
            rate_limit_per_second?: number | null;
            retry_schedule?: number[] | null;
            signature_scheme?: string;
            timeout_seconds?: number;
            url?: string;
            why?: string;
        };
        EndpointMatches: {
            endpoint: string;
            matched: number;
        };
        EndpointPage: {
            /** Format: uri */
            next: string | null;
            results: components["schemas"]["Endpoint"][];
        };
        EndpointStats: {
            buckets: components["schemas"]["Bucket"][];
            endpoint: string;
            /** Format: date-time */
            since: string;
            /** @enum {string} */
            span: "1h" | "24h" | "7d" | "30d";
            step_seconds: number;
            total: components["schemas"]["Figures"];
        };
        Event: {
            api_version: string;
            consumer: string;
            /** Format: date-time */
            created_at: string;
            data: {
                [key: string]: unknown;
            } | null;
            delivery_count: number;
            id: string;
            /** Format: date-time */
            occurred_at: string | null;
            ordering_key: string | null;
            sequence: number | null;
            type: string;
        };
        EventPage: {
            /** Format: uri */
            next: string | null;
            results: components["schemas"]["Event"][];
        };
        EventRequest: {
            api_version?: string;
            consumer: string;
            data: {
                [key: string]: unknown;
            };
            id?: string;
            /** Format: date-time */
            occurred_at?: string;
            ordering_key?: string;
            type: string;
        };
        EventType: {
            archived: boolean;
            /** Format: date-time */
            created_at: string;
            declared: boolean;
            deprecated: boolean;
            description: string;
            name: string;
            versions: components["schemas"]["Version"][];
        };
        EventTypeChangeRequest: {
            archived?: boolean;
            deprecated?: boolean;
            description?: string;
            name?: string;
            versions?: {
                api_version: string;
                example?: unknown;
                schema?: unknown;
            }[];
            why?: string;
        };
        EventTypePage: {
            /** Format: uri */
            next: string | null;
            results: components["schemas"]["EventType"][];
        };
        FeedDelivery: {
            endpoint: string;
            id: string;
            /** @enum {string} */
            state: "pending" | "in_flight" | "delivered" | "dead";
        };
        FeedEvent: {
            api_version: string;
            consumer: string;
            /** Format: date-time */
            created_at: string;
            data: {
                [key: string]: unknown;
            } | null;
            deliveries: components["schemas"]["FeedDelivery"][];
            delivery_count: number;
            id: string;
            /** Format: date-time */
            occurred_at: string | null;
            ordering_key: string | null;
            sequence: number | null;
            type: string;
        };
        FeedEventPage: {
            /** Format: uri */
            next: string | null;
            results: components["schemas"]["FeedEvent"][];
        };
        Figures: {
            attempts: number;
            dead: number;
            delivered: number;
            duration_ms: components["schemas"]["Percentiles"];
            failed: number;
            latency_ms: components["schemas"]["Percentiles"];
            success_rate: number | null;
        };
        Finding: {
            advice: string;
            meaning: string;
            name: string;
            received: string | null;
            sent: string;
            title: string;
            /** @enum {string} */
            verdict: "pass" | "warn" | "fail" | "unknown";
        };
        Index: {
            /** Format: uri */
            documentation: string;
            /** @enum {string} */
            role: "producer" | "consumer" | "operator";
            routes: components["schemas"]["IndexLine"][];
            /** Format: uri */
            schema: string;
            scopes: string[];
        };
        IndexLine: {
            allowed: boolean;
            /** @enum {string} */
            method: "GET" | "POST" | "PATCH" | "DELETE";
            operation: string;
            path: string;
            roles: string[];
            scope: string | null;
            summary: string;
        };
        Key: {
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            expires_at: string | null;
            hint: string;
            id: string;
            issued_by: string | null;
            /** Format: date-time */
            last_used_at: string | null;
            name: string;
            /** Format: date-time */
            revoked_at: string | null;
            /** @enum {string} */
            role: "producer" | "consumer" | "operator";
            scopes: string[];
        };
        KeyPage: {
            /** Format: uri */
            next: string | null;
            results: components["schemas"]["Key"][];
        };
        KeyRequest: {
            /** Format: date-time */
            expires_at?: string | null;
            name?: string;
            scopes?: ("attempts:read" | "consumers:read" | "deliveries:read" | "endpoints:read" | "endpoints:test" | "endpoints:write" | "event_types:read" | "events:read" | "keys:read" | "keys:write" | "replays:write" | "secrets:rotate" | "default")[] | null;
            why?: string;
        };
        KeyRotateRequest: {
            overlap_seconds?: number;
            why?: string;
        };
        Mistake: {
            detail: string;
            pointer: string;
        };
        NewEndpoint: {
            consumer: string;
            /** Format: date-time */
            created_at: string;
            description: string;
            disabled_reason: string | null;
            event_types: string[];
            headers: string[];
            id: string;
            max_in_flight: number;
            metadata: {
                [key: string]: string;
            };
            ordered: boolean;
            /** @enum {string} */
            payload_mode: "full" | "thin" | "cloudevents" | "cloudevents_binary";
            rate_limit_per_second: number | null;
            retry_schedule: number[] | null;
            secret: string | null;
            signature_scheme: string;
            /** @enum {string} */
            status: "active" | "paused" | "disabled";
            timeout_seconds: number;
            /** Format: uri */
            url: string;
        };
        NewEndpointRequest: {
            description?: string;
            event_types?: string[];
            headers?: {
                [key: string]: string;
            };
            max_in_flight?: number;
            metadata?: {
                [key: string]: string;
            };
            ordered?: boolean;
            /** @enum {string} */
            payload_mode?: "full" | "thin" | "cloudevents" | "cloudevents_binary";
            rate_limit_per_second?: number | null;
            retry_schedule?: number[] | null;
            secret?: string;
            signature_scheme?: string;
            timeout_seconds?: number;
            url: string;
            why?: string;
        };
        NewEventTypeRequest: {
            description?: string;
            name: string;
            versions?: {
                api_version: string;
                example?: unknown;
                schema?: unknown;
            }[];
            why?: string;
        };
        NewKey: {
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            expires_at: string | null;
            hint: string;
            id: string;
            issued_by: string | null;
            key: string;
            /** Format: date-time */
            last_used_at: string | null;
            name: string;
            /** Format: date-time */
            revoked_at: string | null;
            /** @enum {string} */
            role: "producer" | "consumer" | "operator";
            scopes: string[];
        };
        NewProfileRequest: {
            attempt_header?: string | null;
            description?: string;
            /** @enum {string} */
            encoding?: "hex" | "base64";
            /** @enum {string} */
            hash?: "sha256" | "sha512" | "sha1";
            id_header?: string | null;
            /** @enum {string} */
            key?: "text" | "base64";
            lead?: string;
            name: string;
            prefix?: string;
            second_header?: string | null;
            separator?: string;
            signature_header?: string;
            signed: string;
            timestamp_header?: string | null;
            type_header?: string | null;
            why?: string;
        };
        NoticeData: {
            /** Format: date-time */
            at: string;
            consumer: string;
            delivery?: string;
            endpoint: string;
            event?: string;
            last?: boolean;
            reason: string;
            url: string;
        };
        Percentiles: {
            p50: number | null;
            p95: number | null;
            p99: number | null;
        };
        PortalLink: {
            /** Format: date-time */
            expires_at: string;
            /** Format: uri */
            url: string;
        };
        PortalLinkRequest: {
            branding?: {
                accent?: string;
                legal?: string;
                logo_url?: string;
                name?: string;
                support_url?: string;
            };
            why?: string;
        };
        Preview: {
            by_endpoint: components["schemas"]["EndpointMatches"][];
            matched: number;
            matched_is_minimum?: boolean;
        };
        Problem: {
            code: string;
            detail: string;
            errors?: components["schemas"]["Mistake"][];
            status: number;
            title: string;
            /** Format: uri */
            type: string;
        };
        Profile: {
            attempt_header: string | null;
            /** Format: date-time */
            created_at: string | null;
            description: string;
            /** @enum {string} */
            encoding: "hex" | "base64";
            /** @enum {string} */
            hash: "sha256" | "sha512" | "sha1";
            id_header: string | null;
            /** @enum {string} */
            key: "text" | "base64";
            lead: string;
            name: string;
            prefix: string;
            ready_made: boolean;
            second_header: string | null;
            separator: string;
            signature_header: string;
            signed: string;
            timestamp_header: string | null;
            type_header: string | null;
            warnings: string[];
        };
        ProfileChangeRequest: {
            attempt_header?: string | null;
            description?: string;
            /** @enum {string} */
            encoding?: "hex" | "base64";
            /** @enum {string} */
            hash?: "sha256" | "sha512" | "sha1";
            id_header?: string | null;
            /** @enum {string} */
            key?: "text" | "base64";
            lead?: string;
            prefix?: string;
            second_header?: string | null;
            separator?: string;
            signature_header?: string;
            signed?: string;
            timestamp_header?: string | null;
            type_header?: string | null;
            why?: string;
        };
        ProfileList: {
            next: null;
            results: components["schemas"]["Profile"][];
        };
        Replay: {
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            finished_at: string | null;
            id: string;
            matched: number;
            matched_is_minimum?: boolean;
            rate_per_second: number | null;
            replayed: number;
            /** @enum {string} */
            status: "running" | "done" | "cancelled";
            why: string;
        };
        ReplayDetail: {
            /** Format: date-time */
            created_at: string;
            dead_again: number;
            delivered: number;
            /** Format: date-time */
            finished_at: string | null;
            id: string;
            matched: number;
            matched_is_minimum?: boolean;
            rate_per_second: number | null;
            replayed: number;
            /** @enum {string} */
            status: "running" | "done" | "cancelled";
            waiting: number;
            why: string;
        };
        ReplayPage: {
            /** Format: uri */
            next: string | null;
            results: components["schemas"]["Replay"][];
        };
        ReplayRequest: {
            all?: boolean;
            consumer?: string;
            dead_reason?: string;
            deliveries?: string[];
            dry_run?: boolean;
            endpoint?: string;
            error_kind?: string;
            event?: string;
            event_type?: string;
            filter?: {
                consumer?: string;
                dead_reason?: string;
                deliveries?: string[];
                endpoint?: string;
                error_kind?: string;
                event?: string;
                event_type?: string;
                ordering_key?: string;
                /** Format: date-time */
                since?: string;
                /** @enum {string} */
                state?: "dead" | "delivered";
                /** Format: date-time */
                until?: string;
            };
            /** Format: date-time */
            missed_since?: string;
            /** Format: date-time */
            missed_until?: string;
            ordering_key?: string;
            rate_per_second?: number | null;
            /** Format: date-time */
            since?: string;
            /** @enum {string} */
            state?: "dead" | "delivered";
            /** Format: date-time */
            until?: string;
            why?: string;
        };
        RotatedKey: {
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            expires_at: string | null;
            hint: string;
            id: string;
            issued_by: string | null;
            key: string;
            /** Format: date-time */
            last_used_at: string | null;
            name: string;
            /** Format: date-time */
            previous_expires_at: string | null;
            /** Format: date-time */
            revoked_at: string | null;
            /** @enum {string} */
            role: "producer" | "consumer" | "operator";
            scopes: string[];
        };
        RotatedSecret: {
            id: string;
            /** Format: date-time */
            previous_expires_at: string | null;
            secret: string | null;
        };
        RotateRequest: {
            force?: boolean;
            overlap_seconds?: number;
            secret?: string;
            why?: string;
        };
        TestRequest: {
            data?: {
                [key: string]: unknown;
            };
            type?: string;
            why?: string;
        };
        Trial: {
            duration_ms: number;
            error_detail?: string | null;
            error_kind: string | null;
            event: string;
            request_body?: string;
            request_headers?: string[][];
            response_body?: string | null;
            response_headers?: string[][] | null;
            /** Format: date-time */
            started_at: string;
            status_code: number | null;
            success: boolean;
            type: string;
            url: string;
        };
        Version: {
            api_version: string;
            example: unknown;
            schema: unknown;
        };
        Webhook: {
            api_version: string;
            /** Format: date-time */
            created_at: string;
            data?: {
                [key: string]: unknown;
            };
            id: string;
            ordering_key?: string;
            sequence?: number;
            /** Format: date-time */
            timestamp: string;
            type: string;
        };
        WhyRequest: {
            why?: string;
        };
    };
    responses: never;
    parameters: {
        IdempotencyKey: string;
        RequestId: string;
        Traceparent: string;
        "webhook-attempt": number;
        "webhook-id": string;
        "webhook-idempotency-key": string;
        "webhook-signature": string;
        "webhook-timestamp": number;
    };
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    get_index: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Index"];
                };
            };
        };
    };
    list_audit_entries: {
        parameters: {
            query?: {
                action?: string;
                actor?: string;
                consumer?: string;
                cursor?: string;
                limit?: number;
                since?: string;
                target?: string;
                until?: string;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditEntryPage"];
                };
            };
        };
    };
    list_consumers: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConsumerPage"];
                };
            };
        };
    };
    create_consumer: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ConsumerRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Consumer"];
                };
            };
        };
    };
    get_consumer: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Consumer"];
                };
            };
        };
    };
    delete_consumer: {
        parameters: {
            query?: {
                why?: string;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    update_consumer: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ConsumerChangeRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Consumer"];
                };
            };
        };
    };
    list_endpoints: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EndpointPage"];
                };
            };
        };
    };
    create_endpoint: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewEndpointRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewEndpoint"];
                };
            };
        };
    };
    read_feed: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                undelivered?: boolean;
                wait?: number;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FeedEventPage"];
                };
            };
        };
    };
    list_keys: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyPage"];
                };
            };
        };
    };
    create_key: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["KeyRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewKey"];
                };
            };
        };
    };
    revoke_key: {
        parameters: {
            query?: {
                why?: string;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    rotate_key: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
                key: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["KeyRotateRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RotatedKey"];
                };
            };
        };
    };
    create_portal_link: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PortalLinkRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortalLink"];
                };
            };
        };
    };
    get_consumer_stats: {
        parameters: {
            query?: {
                span?: "1h" | "24h" | "7d" | "30d";
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                consumer: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConsumerStats"];
                };
            };
        };
    };
    list_deliveries: {
        parameters: {
            query?: {
                consumer?: string;
                cursor?: string;
                dead_reason?: string;
                endpoint?: string;
                error_kind?: string;
                event?: string;
                event_type?: string;
                limit?: number;
                ordering_key?: string;
                since?: string;
                state?: "pending" | "in_flight" | "delivered" | "dead";
                until?: string;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeliveryPage"];
                };
            };
        };
    };
    get_delivery: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                delivery: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeliveryDetail"];
                };
            };
        };
    };
    replay_delivery: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                delivery: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["WhyRequest"];
            };
        };
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Delivery"];
                };
            };
        };
    };
    get_endpoint: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Endpoint"];
                };
            };
        };
    };
    delete_endpoint: {
        parameters: {
            query?: {
                dry_run?: boolean;
                why?: string;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Backlog"];
                };
            };
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    update_endpoint: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["EndpointChangeRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Endpoint"];
                };
            };
        };
    };
    get_check_up: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckUp"];
                };
            };
        };
    };
    run_check_up: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["WhyRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckUp"];
                };
            };
        };
    };
    list_endpoint_deliveries: {
        parameters: {
            query?: {
                consumer?: string;
                cursor?: string;
                dead_reason?: string;
                error_kind?: string;
                event?: string;
                event_type?: string;
                limit?: number;
                ordering_key?: string;
                since?: string;
                state?: "pending" | "in_flight" | "delivered" | "dead";
                until?: string;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeliveryPage"];
                };
            };
        };
    };
    pause_endpoint: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["WhyRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Endpoint"];
                };
            };
        };
    };
    resume_endpoint: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["WhyRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Endpoint"];
                };
            };
        };
    };
    rotate_secret: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RotateRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RotatedSecret"];
                };
            };
        };
    };
    get_endpoint_stats: {
        parameters: {
            query?: {
                span?: "1h" | "24h" | "7d" | "30d";
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EndpointStats"];
                };
            };
        };
    };
    test_endpoint: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                endpoint: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TestRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Trial"];
                };
            };
        };
    };
    list_event_types: {
        parameters: {
            query?: {
                archived?: boolean;
                cursor?: string;
                limit?: number;
                undeclared?: boolean;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventTypePage"];
                };
            };
        };
    };
    create_event_type: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewEventTypeRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventType"];
                };
            };
        };
    };
    get_event_type: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventType"];
                };
            };
        };
    };
    delete_event_type: {
        parameters: {
            query?: {
                why?: string;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    update_event_type: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["EventTypeChangeRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventType"];
                };
            };
        };
    };
    list_events: {
        parameters: {
            query?: {
                consumer?: string;
                cursor?: string;
                limit?: number;
                ordering_key?: string;
                since?: string;
                state?: "pending" | "in_flight" | "delivered" | "dead";
                type?: string;
                until?: string;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventPage"];
                };
            };
        };
    };
    emit_event: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                traceparent?: components["parameters"]["Traceparent"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EventRequest"];
            };
        };
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Event"];
                };
            };
        };
    };
    get_event: {
        parameters: {
            query?: {
                consumer?: string;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                event: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Event"];
                };
            };
        };
    };
    list_event_deliveries: {
        parameters: {
            query?: {
                consumer?: string;
                cursor?: string;
                limit?: number;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                event: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeliveryPage"];
                };
            };
        };
    };
    emit_events: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                traceparent?: components["parameters"]["Traceparent"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BatchRequest"];
            };
        };
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Batch"];
                };
            };
        };
    };
    list_replays: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayPage"];
                };
            };
        };
    };
    create_replay: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReplayRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Preview"];
                };
            };
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Replay"];
                };
            };
        };
    };
    get_replay: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                replay: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayDetail"];
                };
            };
        };
    };
    cancel_replay: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                replay: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["WhyRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Replay"];
                };
            };
        };
    };
    list_signature_profiles: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileList"];
                };
            };
        };
    };
    create_signature_profile: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewProfileRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Profile"];
                };
            };
        };
    };
    get_signature_profile: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                profile: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Profile"];
                };
            };
        };
    };
    delete_signature_profile: {
        parameters: {
            query?: {
                why?: string;
            };
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                profile: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    update_signature_profile: {
        parameters: {
            query?: never;
            header?: {
                "X-Request-Id"?: components["parameters"]["RequestId"];
            };
            path: {
                profile: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ProfileChangeRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Profile"];
                };
            };
        };
    };
}
