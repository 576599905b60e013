// Generated from docs/openapi.json by `npm run generate`. Do not edit.
export {};
