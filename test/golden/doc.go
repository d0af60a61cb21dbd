// Package golden keeps what each surface makes of each request and answer: the plain HTTP API, the command line
// with -o json, the OpenAPI document, the SDK's declarations and the registrations of lambdas. A file of testdata
// has requests; the lines that begin with "=" are what came of them, and `go test ./test/golden -update` writes
// these anew. A commit that changes such a line says why.
//
// Behind the surfaces is a fake server that answers each procedure with all fields set, unless the file names
// another answer, so that no field, in whatever form, is left out unseen. The file served runs over a server whose
// time stands still. Beside that, no surface may leave a field out without a reason: fields_test.go.
package golden
