// Package conformance holds the clients of all languages to the scenarios of clients/conformance. It runs the real
// server, a proxy that loses and delays what a client says and hears, and an adapter for each language.
package conformance
