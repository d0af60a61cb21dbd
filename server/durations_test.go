package server

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// eachTime calls f with each message in m, made where there is none, and each field of it that is a time or a
// duration in microseconds.
func eachTime(m protoreflect.Message, depth int, f func(in protoreflect.Message, field protoreflect.FieldDescriptor)) {
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		switch {
		case !field.IsList() && slices.Contains([]kinesinv1.Kind{kinesinv1.Kind_KIND_INSTANT, kinesinv1.Kind_KIND_DURATION}, api.KindOf(field)):
			f(m, field)
		case field.Message() == nil || field.IsMap() || depth == 0:
		case field.IsList():
			if list := m.Mutable(field).List(); list.Len() > 0 {
				eachTime(list.Get(0).Message(), depth-1, f)
			}
		default:
			had := m.Has(field)
			eachTime(m.Mutable(field).Message(), depth-1, f)
			if !had {
				m.Clear(field)
			}
		}
	}
}

// Each time and duration of each request may be as large as its type. Whatever is answered, no server fails
// of it.
func TestTimesOfAnySize(t *testing.T) {
	r := serve(t, Config{})
	r.create("mail")
	r.http.Timeout = time.Second // some calls wait for as long as they are told to
	id, calls := r.later("", "mail", ""), 0
	for _, service := range api.Services() {
		for k := range service.Methods().Len() {
			method := service.Methods().Get(k)
			short := string(service.Name()) + "/" + string(method.Name())
			if method.IsStreamingServer() {
				continue
			}
			body := strings.NewReplacer(`"L"`, `"mail"`, `=L`, `=mail`, `"I"`, `"`+id+`"`).Replace(needs[short].body)
			kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
			if err != nil {
				t.Fatal(err)
			}
			message := kind.New()
			if _, err := jsonform.Decode([]byte(body), message.Interface()); err != nil {
				t.Fatal(short, err)
			}
			eachTime(message, 3, func(in protoreflect.Message, field protoreflect.FieldDescriptor) {
				before := in.Get(field)
				for _, value := range []int64{math.MaxInt64, math.MinInt64, math.MaxInt64 / 1000, math.MaxInt64/1000 + 1, -1} {
					in.Set(field, protoreflect.ValueOfInt64(value))
					data, err := proto.Marshal(message.Interface())
					if err != nil {
						t.Fatal(err)
					}
					calls++
					if answer := r.failsOf("/"+string(service.FullName())+"/"+string(method.Name()), data); answer != "" {
						t.Errorf("%s with %s of %d: %s", short, field.Name(), value, answer)
					}
				}
				if in.Set(field, before); before.Int() == 0 {
					in.Clear(field)
				}
			})
		}
	}
	if calls < 100 {
		t.Errorf("%d calls", calls)
	}
}

// failsOf returns the answer to a call that is the server's fault; empty: it is none, or the call waits.
func (r *running) failsOf(procedure string, body []byte) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 300*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+procedure, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/proto")
	response, err := r.http.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return ""
		}
		return err.Error()
	}
	_ = response.Body.Close()
	if response.StatusCode >= http.StatusInternalServerError && response.StatusCode != http.StatusNotImplemented {
		return fmt.Sprint("status ", response.StatusCode)
	}
	return ""
}
