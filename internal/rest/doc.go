// Package rest is the plain HTTP API, under /v1: JSON that a person can type, true status codes, and a
// document (OpenAPI 3.1) of all that at /v1/openapi.json.
//
// It is a thin layer over the services of the wire contract. Each route is one operation in the table of
// routes.go, which says method, path and statuses, and a procedure, whose request has a field for each variable of
// the path, each parameter and each field of the body. Requests are routed and decoded, and the document is
// generated, from that table and the contract alone. Tasks and batches have functions of their own. The
// services behind it decide what a call may do, and what becomes of it.
package rest
