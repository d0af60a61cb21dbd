package web

import (
	"net/http"

	"github.com/kinesin-io/kinesin/internal/room"
)

// Bounds of a form.
const (
	bodyBytesMax = 256 << 10
	// SignInBytesMax bounds the forms of those who are not signed in.
	SignInBytesMax = 16 << 10
)

func formBytesMax(path string) int64 {
	if !Needs(path) {
		return SignInBytesMax
	}
	return bodyBytesMax
}

// Console serves all paths that begin with Prefix.
type Console struct {
	Config

	live    *live
	streams *streams
	mux     http.Handler
}

// CloseStreams ends the streams of all open pages, and lets none begin.
func (k *Console) CloseStreams() { k.streams.close() }

// Rooms returns what viewers share.
func (k *Console) Rooms() []*room.Room { return []*room.Room{k.streams.room, k.streams.partsRoom} }

// ServeHTTP implements http.Handler.
func (k *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if r.URL.Path == "/" || r.URL.Path == "/ui" {
		http.Redirect(w, r, Prefix, http.StatusFound)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, formBytesMax(r.URL.Path))
	k.mux.ServeHTTP(w, r)
}
