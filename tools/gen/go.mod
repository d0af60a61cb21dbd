// The generator of api/kinesinv1. A module of its own, so that what it needs
// never reaches the go.mod of the project.
module github.com/kinesin-io/kinesin/tools/gen

go 1.26.7

tool (
	connectrpc.com/connect/cmd/protoc-gen-connect-go
	github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto
	google.golang.org/protobuf/cmd/protoc-gen-go
)

require (
	github.com/bufbuild/protocompile v0.14.1
	google.golang.org/protobuf v1.36.12
)

require (
	connectrpc.com/connect v1.21.1 // indirect
	github.com/planetscale/vtprotobuf v0.6.0 // indirect
	golang.org/x/sync v0.8.0 // indirect
)
