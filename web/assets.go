package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed static
var static embed.FS

// asset is an embedded file as it is sent.
type asset struct {
	plain, zipped []byte
	kind          string
	version       string // changes with the contents
}

// shortName is the path of an embedded file without the folder that names the version of what others wrote.
func shortName(name string) string {
	name = strings.TrimPrefix(name, "static/")
	if base := path.Base(name); strings.HasPrefix(name, "vendor/") && base != "LICENSE" {
		return "vendor/" + base
	}
	return name
}

// assets returns all embedded files by their short names.
var assets = sync.OnceValue(func() map[string]asset { //nolint:gochecknoglobals // computed once
	all := map[string]asset{}
	err := fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		plain, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		var zipped bytes.Buffer
		z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // a level that there is
		_, _ = z.Write(plain)                                      // to memory
		_ = z.Close()
		sum := sha256.Sum256(plain)
		kind := mime.TypeByExtension(path.Ext(name))
		switch path.Ext(name) { // not as the machine has it
		case ".js":
			kind = "text/javascript; charset=utf-8"
		case ".css":
			kind = "text/css; charset=utf-8"
		case ".svg":
			kind = "image/svg+xml"
		case "":
			kind = "text/plain; charset=utf-8" // a licence
		}
		all[shortName(name)] = asset{plain, zipped.Bytes(), kind, hex.EncodeToString(sum[:6])}
		return nil
	})
	if err != nil {
		panic(err) // they are embedded
	}
	return all
})

// assetPath returns the path of an embedded file, which names its version.
func assetPath(name string) string { return Prefix + "static/" + name + "?v=" + assets()[name].version }

// serveAsset serves embedded files. A path with the present version may be kept for good.
func serveAsset() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, found := assets()[strings.TrimPrefix(r.URL.Path, Prefix+"static/")]
		if !found {
			http.Error(w, "there is no such file", http.StatusNotFound)
			return
		}
		h := w.Header()
		h.Set("Cache-Control", "no-cache")
		if r.URL.Query().Get("v") == a.version {
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		h.Set("Content-Type", a.kind)
		h.Set("ETag", `"`+a.version+`"`)
		h.Set("Vary", "Accept-Encoding")
		if r.Header.Get("If-None-Match") == `"`+a.version+`"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		send(w, r, a.plain, a.zipped)
	})
}
