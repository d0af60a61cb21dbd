// Package openapi tests the plain HTTP API (internal/rest) as others see it: an independent validator reads
// its document, schemathesis tries requests by it, and the examples of docs/reference/http.md run as they stand there.
package openapi
