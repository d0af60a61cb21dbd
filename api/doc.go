// Package api is the wire contract of Kinesin, version 1: the generated
// messages and services (kinesinv1, from proto/), their binary codec, the options that
// all handlers and clients share, and the conversion between errors and their
// form on the wire. It owns no state and makes no call.
//
// A server builds its handlers with HandlerOptions, and jsonform.HandlerOption where people call them, and returns
// plain errors:
//
//	path, handler := kinesinv1connect.NewTaskServiceHandler(service, api.HandlerOptions(hooks)...)
//
// A client builds its clients with ClientOptions and reads errors with FromWire.
package api
