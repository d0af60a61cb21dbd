package task_test

import (
	"errors"
	paths "path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/task"
)

func TestBlobNamesAreParsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := task.BlobOwner{Lambda: rapid.StringMatching(`[a-zA-Z0-9_-]{1,64}`).Draw(t, "lambda")}
		if want.Key = string(rapid.SliceOfN(rapid.Byte(), 0, 256).Draw(t, "key")); want.Key == "" {
			copy(want.Task[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "task"))
		}
		blob := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "blob"))
		name := task.BlobName(want, blob)
		got, gotBlob, ok := task.ParseBlobName(name)
		if !ok || got != want || gotBlob != blob {
			t.Errorf("%s: got %+v, %x, %v", name, got, gotBlob, ok)
		}
		for part := range strings.SplitSeq(name, "/") {
			if len(part) == 0 || len(part) > 255 || paths.Clean(part) != part || part == ".." {
				t.Errorf("%s: part %q is no name of a file", name, part)
			}
		}
	})
}

func TestOtherNamesAreNoBlobs(t *testing.T) {
	good := task.BlobName(task.BlobOwner{Lambda: "mail", Key: "k"}, [16]byte{1})
	for _, name := range []string{
		"", "installation", "mail", "mail/k6b", "/" + good, good + "/", good + "0", strings.ToUpper(good), strings.Replace(good, "/k", "/x", 1),
		strings.Replace(good, "k6b", "k6", 1), strings.Replace(good, "k6b", "k", 1), strings.Replace(good, "k6b", "k6/b", 1), strings.Replace(good, "k6b", "t6b", 1), "../" + good,
	} {
		if o, _, ok := task.ParseBlobName(name); ok {
			t.Errorf("%q: got %+v", name, o)
		}
	}
}

func TestBlobLimits(t *testing.T) {
	for _, c := range []struct {
		blob task.Blob
		good bool
	}{
		{task.Blob{ID: [16]byte{1}, Bytes: 1}, true},
		{task.Blob{ID: [16]byte{1}, Bytes: task.BlobBytesMax}, true},
		{task.Blob{ID: [16]byte{1}, Bytes: task.BlobBytesMax + 1}, false},
		{task.Blob{ID: [16]byte{1}}, false},
		{task.Blob{ID: [16]byte{1}, Bytes: -1}, false},
		{task.Blob{Bytes: 1}, false},
	} {
		if err := c.blob.Check(); (err == nil) != c.good || err != nil && !errors.Is(err, task.ErrBadBlob) {
			t.Errorf("%+v: %v", c.blob, err)
		}
	}
}
