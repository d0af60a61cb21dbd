package rest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

const jsonType = "application/json"

// call is one request that has a route.
type call struct {
	*handler

	route *route
	w     http.ResponseWriter
	r     *http.Request
	vars  map[string]string // of the path, decoded
	query url.Values
	given []string // the fields of the body
}

func invalid(format string, args ...any) error {
	return api.Errorf(kinesinv1.Reason_REASON_INVALID, format, args...)
}

// checkContent refuses a body of a type that the route does not take.
func checkContent(at *route, r *http.Request) *api.HTTPProblem {
	if r.Header.Get("Content-Encoding") != "" && r.Header.Get("Content-Encoding") != "identity" {
		p := api.StatusProblem(http.StatusUnsupportedMediaType, "a body with Content-Encoding is not taken: send it uncompressed")
		return &p
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if at.request == nil {
		return checkNoBody(at, r)
	}
	sent := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(sent)
	if charset := params["charset"]; err == nil && (charset == "" || strings.EqualFold(charset, "utf-8")) &&
		(media == jsonType || at.batch != nil && media == api.BatchType) {
		return nil
	}
	want := "Content-Type: " + jsonType
	if at.batch != nil {
		want += ", or " + api.BatchType + " for a batch"
	}
	p := api.StatusProblem(http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Type %q is not taken here: want %s", sent, want))
	return &p
}

// checkNoBody refuses a body where none is read, since its fields would be ignored in silence. An empty
// object, which some clients always send, has none.
func checkNoBody(at *route, r *http.Request) *api.HTTPProblem {
	start := make([]byte, 64)
	n, _ := io.ReadFull(r.Body, start)
	if text := string(bytes.TrimSpace(start[:n])); n < len(start) && (text == "" || text == "{}") {
		return nil
	}
	p := api.StatusProblem(http.StatusBadRequest, fmt.Sprintf("%s takes no body here; parameters: %s", at.method, at.queryNames()))
	return &p
}

// parseQuery reads the parameters behind the path, and refuses those that the route does not have.
func (c *call) parseQuery() (err error) {
	if c.query, err = url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return invalid("the query is malformed: %v", err)
	}
	for name, values := range c.query {
		known := slices.IndexFunc(c.route.query, func(p param) bool { return p.name == name })
		switch {
		case known < 0:
			return invalid("unknown parameter %q; allowed here: %s", name, c.route.queryNames())
		case len(values) > 1:
			return invalid("parameter %q is there %d times", name, len(values))
		case values[0] == "" && c.route.query[known].schema["type"] != "string":
			return invalid("parameter %q is empty: leave it out", name)
		}
	}
	return nil
}

// decode reads the body. An empty one is a request without fields, where the route allows that.
func (c *call) decode(into proto.Message) error {
	most := api.RequestBytesMax(c.r.URL.Path)
	var body bytes.Buffer
	body.Grow(int(min(max(c.r.ContentLength, 0), int64(most))) + bytes.MinRead) // so that it does not grow while it is read
	_, err := body.ReadFrom(http.MaxBytesReader(c.w, c.r.Body, int64(most)))
	data := body.Bytes()
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "the body has more than %d bytes, which is the most here", most)
	}
	if refused, is := errors.AsType[*api.Error](err); is {
		return refused
	}
	if err != nil {
		return invalid("the body could not be read: %v", err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		if c.route.bodyIsOptional {
			return nil
		}
		return invalid("the body is empty: want a JSON object such as {}")
	}
	if c.given, err = jsonform.Decode(data, into, c.route.without...); err != nil {
		return invalid("%v", err)
	}
	return nil
}

// flag returns a parameter that is true or false; false when it is not there.
func (c *call) flag(name string) (bool, error) {
	switch value := c.query.Get(name); value {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, invalid("parameter %s: %q is not true or false", name, value)
	}
}

// number returns a parameter that is a whole number; 0 when it is not there.
func (c *call) number(name string, most uint64) (uint32, error) {
	text := c.query.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > most {
		return 0, invalid("parameter %s: %q is not a whole number from 0 to %d", name, text, most)
	}
	return uint32(n), nil
}

// ifSeq returns the seq that a task must have, which may be in the header If-Match, in the query and in the
// body; 0: any.
func (c *call) ifSeq(inBody uint64) (uint64, error) {
	seq := inBody
	header := c.r.Header.Values("If-Match")
	if len(header) > 0 && strings.Join(header, "") == "" {
		return 0, invalid(`header If-Match is empty: want the ETag of one task, such as "7"`)
	}
	const inHeader = "header If-Match"
	for _, given := range [][2]string{{"parameter if_seq", c.query.Get("if_seq")}, {inHeader, strings.Join(header, ",")}} {
		name, text := given[0], given[1]
		if text == "" || text == "*" {
			continue
		}
		number := text
		if name == inHeader {
			inside, isQuoted := strings.CutPrefix(strings.TrimSuffix(text, `"`), `"`)
			if !isQuoted || len(text) != len(inside)+2 {
				return 0, invalid(`header If-Match: want the ETag of one task, such as "7"`)
			}
			number = inside
		}
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || n == 0 {
			return 0, invalid("%s: %q is no seq of a task: want a whole number from 1", name, text)
		}
		if seq != 0 && seq != n {
			return 0, invalid("if_seq is given twice: %d and %d", seq, n)
		}
		seq = n
	}
	return seq, nil
}

// tagged is an answer about one task at a seq.
type tagged interface{ GetSeq() uint64 }

// answer sends a response.
func (c *call) answer(status int, value proto.Message) {
	if t, is := value.(tagged); is && t.GetSeq() > 0 {
		c.w.Header().Set("ETag", strconv.Quote(strconv.FormatUint(t.GetSeq(), 10)))
	}
	send(c.w, status, append(jsonform.Append(nil, value), '\n'))
}

func send(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the caller has gone
}

// refuse sends an error.
func (c *call) refuse(err error) { c.problem(err).Write(c.w) }

// problem returns the form of an error in an answer, and tells the hook if it is internal.
func (c *call) problem(err error) api.HTTPProblem {
	if coded, is := errors.AsType[*connect.Error](err); is {
		if coded.Code() == connect.CodeUnimplemented {
			err = api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED, "this server cannot do that: it has another role (serve --roles), or is older")
		} else {
			err = api.FromWire(err)
		}
	}
	p := api.ProblemOf(err)
	if p.Reason == kinesinv1.Reason_REASON_INTERNAL {
		c.internal(c.r.Context(), c.route, err)
	}
	return api.HTTPProblemOf(p)
}

// problemOf returns the form of a problem of one element of an answer; nil for nil.
func problemOf(p *kinesinv1.Problem) *api.HTTPProblem {
	if p == nil {
		return nil
	}
	problem := api.HTTPProblemOf(p)
	return &problem
}
