package dial

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// tlsWanted is the answer of package net/http to plain HTTP on a TLS port.
const tlsWanted = "Client sent an HTTP request to an HTTPS server."

// saysTLS reports whether the answer is tlsWanted. It never reads an answer of Kinesin, which always has a
// type.
func saysTLS(r *http.Response) bool {
	if r.StatusCode != http.StatusBadRequest || r.Header.Get("Content-Type") != "" {
		return false
	}
	start, _ := io.ReadAll(io.LimitReader(r.Body, int64(len(tlsWanted))))
	if string(start) == tlsWanted {
		return true
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(string(start)), r.Body), r.Body}
	return false
}

// invalid returns the error for a server that is named wrongly.
func invalid(r *http.Request, format string, args ...any) error {
	where := r.URL.Scheme + "://" + r.URL.Host
	return api.Errorf(kinesinv1.Reason_REASON_INVALID, "invalid server %s: %s", where, fmt.Sprintf(format, args...))
}
