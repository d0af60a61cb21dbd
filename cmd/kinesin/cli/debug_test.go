package cli_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDebugBundle(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	if o := s.object("debug", "bundle", "--file", file); o["file"] != file || fmt.Sprint(o["missing"]) != "[]" {
		t.Errorf("%v", o)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	parts, archive := map[string]string{}, tar.NewReader(zipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		parts[strings.TrimPrefix(header.Name, "kinesin-debug/")] = string(text)
	}
	for file, want := range map[string]string{
		"metrics.txt": "kinesin_build_info", "goroutines.txt": "goroutine ", "config.json": `"Store"`, "partitions.json": "[", "readyz.txt": "ready", "log.txt": "serving",
	} {
		if !strings.Contains(parts[file], want) {
			t.Errorf("%s has no %q: %.200s", file, want, parts[file])
		}
	}
	s.do("debug", "bundle", "--file", file).check(t, "an existing file", 2, "exists")
	if levels := strings.Fields(s.must("debug", "log-level", "--component", "scheduler", "debug")); !slices.Contains(levels, "scheduler") || levels[slices.Index(levels, "scheduler")+1] != "debug" {
		t.Error(levels)
	}
	if levels := s.must("debug", "log-level", "-o", "json"); !strings.Contains(levels, `"scheduler":"debug"`) || !strings.Contains(levels, `"hsc":"`) {
		t.Error(levels)
	}
	s.do("debug", "log-level", "loud").check(t, "a level", 2, "want debug, info, warn or error")
	s.do("debug", "log-level", "--component", "hsc").check(t, "no level", 2, "without a level")
}
