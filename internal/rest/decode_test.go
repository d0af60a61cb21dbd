package rest

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/internal/alloctest"
)

// requestTypes returns the type of each request that is no message.
func requestTypes() (types []reflect.Type) {
	for _, r := range routes(Services{}.withDefaults()) {
		if r.request != nil && !reflect.PointerTo(r.request).Implements(reflect.TypeFor[proto.Message]()) {
			types = append(types, r.request)
		}
	}
	return types
}

// Every list and map of a request has a bound.
func TestListsOfRequestsAreBounded(t *testing.T) {
	for _, request := range requestTypes() {
		for _, field := range reflect.VisibleFields(request) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			_, isOwn := reflect.TypeAssert[fromJSON](reflect.New(field.Type))
			if kind := field.Type.Kind(); !isOwn && (kind == reflect.Slice || kind == reflect.Map) && listsMax[name] == 0 {
				t.Errorf("%s: the field %s has no bound", request, name)
			}
		}
	}
}

// FuzzDecode decodes anything into every request. An accepted value is accepted again when it is encoded.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("../../test/golden/testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, request := range regexp.MustCompile(`(?m)^(POST|PUT|PATCH) \S+ (.+)$`).FindAllSubmatch(text, -1) {
			f.Add(request[2])
		}
	}
	f.Add([]byte(`{"payload":` + strings.Repeat("[", 20_000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, request := range requestTypes() {
			into := reflect.New(request)
			var err error
			alloctest.AtMost(t, uint64(256<<10+64*len(data)), func() { err = decode(data, reflect.New(request).Interface()) })
			if err != nil || decode(data, into.Interface()) != nil {
				continue
			}
			again, err := encode(into.Interface())
			if err != nil {
				t.Fatalf("%s took %q and cannot be encoded: %v", request, data, err)
			}
			second := reflect.New(request)
			if err := decode(again, second.Interface()); err != nil {
				t.Fatalf("%s took %q, but not %q: %v", request, data, again, err)
			}
			if third, err := encode(second.Interface()); err != nil || !bytes.Equal(again, third) {
				t.Fatalf("%s: %q became %q, then %q: %v", request, data, again, third, err)
			}
		}
	})
}
