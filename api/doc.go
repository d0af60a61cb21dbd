// Package api is the wire contract of Kinesin, version 1: the generated
// messages and services (kinesinv1, from proto/), the codec that carries them,
// the options that every handler and client shares, and the one place where
// errors become reasons and codes on the wire and errors again on the other side.
// It owns no state, makes no call, and knows no role.
//
// A server builds its handlers with HandlerOptions and returns plain errors:
//
//	path, handler := kinesinv1connect.NewTaskServiceHandler(service, api.HandlerOptions(hooks)...)
//
// A client builds its clients with ClientOptions and reads errors with FromWire.
package api
