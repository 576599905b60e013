"""The API's own description: an OpenAPI document made from what the views declare, a reader for it, and an index."""
