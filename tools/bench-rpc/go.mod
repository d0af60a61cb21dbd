// Measures connect against google.golang.org/grpc for the hot calls. A module
// of its own, so that grpc never reaches the go.mod of the project.
module github.com/kinesin-io/kinesin/tools/bench-rpc

go 1.26.0

replace github.com/kinesin-io/kinesin => ../..

require (
	connectrpc.com/connect v1.21.1
	github.com/kinesin-io/kinesin v0.0.0-00010101000000-000000000000
	google.golang.org/grpc v1.85.0
)

require (
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261104224025-d1e00e9f33ab // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
