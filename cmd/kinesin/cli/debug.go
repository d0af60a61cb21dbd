package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/internal/logging"
	"github.com/kinesin-io/kinesin/sdk"
)

// bundlePartBytesMax bounds a file of a bundle.
const bundlePartBytesMax = 64 << 20

// bundleParts are the files of a bundle and where a server has them. None has a secret or a payload.
var bundleParts = []struct{ file, path string }{ //nolint:gochecknoglobals // a table
	{"config.json", "/debug/config"},
	{"metrics.txt", "/metrics"},
	{"goroutines.txt", "/debug/pprof/goroutine?debug=2"},
	{"heap.pprof", "/debug/pprof/heap"},
	{"partitions.json", "/debug/partitions"},
	{"log.txt", "/debug/log"},
	{"readyz.txt", "/readyz"},
	{"livez.txt", "/livez"},
}

func (a *app) debugCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "debug",
		Short: "Look into a running server",
		Long:  "Looks into a running server. With authentication that takes the verbs debug and metrics.",
	}, a.debugBundleCommand(), a.debugLogLevelCommand())
}

// bundleObject is a bundle in JSON.
type bundleObject struct {
	File  string   `json:"file"`
	Parts []string `json:"parts"`
	// Missing are the parts that the server did not give.
	Missing []string `json:"missing"`
}

func (a *app) debugBundleCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "bundle [--file FILE]",
		Short: "Save what a report of a problem needs, as a .tar.gz",
		Long: `Saves what a report of a problem needs of a server as a .tar.gz: its configuration without secrets, metrics, goroutines,
heap, partitions, health and the last lines of its log. It has no payloads and no tokens, but names of lambdas, hosts and
identities. Exit 1 if the server gives none of it.`,
		Example: `  kinesin debug bundle
  kinesin debug bundle --server https://kinesin-2:7070 --file kinesin-2.tar.gz`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&file, "file", "", "`FILE` to write; kinesin-debug-TIME.tar.gz when not set. It must not exist")
	return a.calling(c, func(ctx context.Context, _ *sdk.Client, _ []string) error {
		if file == "" {
			file = "kinesin-debug-" + time.Now().UTC().Format("20060102T150405Z") + ".tar.gz"
		}
		o := bundleObject{File: file, Missing: []string{}}
		out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user names the file
		if err != nil {
			return usagef("bundle: %v", err)
		}
		if err := errors.Join(a.writeBundle(ctx, out, &o), out.Close()); err != nil {
			return errors.Join(err, os.Remove(file))
		}
		for _, part := range o.Missing {
			a.note("left out: %s", part)
		}
		return a.print(o, "%s: %d files", o.File, len(o.Parts))
	})
}

// writeBundle writes the parts that the server gives.
func (a *app) writeBundle(ctx context.Context, w io.Writer, o *bundleObject) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	var last error
	for _, part := range bundleParts {
		text, err := a.fetch(ctx, http.MethodGet, part.path)
		if err != nil {
			last = err
			o.Missing = append(o.Missing, fmt.Sprintf("%s: %v", part.file, err))
			continue
		}
		o.Parts = append(o.Parts, part.file)
		header := &tar.Header{Name: "kinesin-debug/" + part.file, Mode: 0o600, Size: int64(len(text)), ModTime: time.Now()}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(text); err != nil {
			return err
		}
	}
	if len(o.Parts) == 0 {
		return last
	}
	return errors.Join(archive.Close(), zipped.Close())
}

// fetch gets something from the server that is no part of its API.
func (a *app) fetch(ctx context.Context, method, path string) ([]byte, error) {
	got, err := a.ask(ctx, method, path)
	switch {
	case err != nil:
		return nil, err
	case got.code == http.StatusServiceUnavailable && (path == "/readyz" || path == "/livez"): // says why
	case got.code != http.StatusOK:
		return nil, fmt.Errorf("the server answers %s: %.200s", got.status, got.text)
	}
	return got.text, nil
}

// answer is what a server answers to a request that is no part of its API.
type answer struct {
	code   int
	status string
	header http.Header
	text   []byte
}

// ask returns what the server answers, whatever its status.
func (a *app) ask(ctx context.Context, method, path string) (answer, error) {
	clients, err := a.connections()
	if err != nil {
		return answer{}, err
	}
	request, err := http.NewRequestWithContext(ctx, method, clients.Base+path, http.NoBody)
	if err != nil {
		return answer{}, err
	}
	response, err := clients.Calls.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, bundlePartBytesMax))
	return answer{response.StatusCode, response.Status, response.Header, text}, err
}

func (a *app) debugLogLevelCommand() *cobra.Command {
	var component string
	c := &cobra.Command{
		Use:   "log-level [--component C] [LEVEL]",
		Short: "Show or change the level of a server's log, until it ends",
		Long:  "Shows the level of each component of a server's log, or changes it until the server ends: debug, info, warn or error.",
		Example: `  kinesin debug log-level
  kinesin debug log-level --component scheduler debug`,
		Args: cobra.MaximumNArgs(1),
	}
	c.Flags().Var(choiceValue{&component, append(logging.Components(), "")}, "component", "only this `COMPONENT`: dispatcher, hsc, inbound, scheduler, server or store; all when not set")
	return a.calling(c, func(ctx context.Context, _ *sdk.Client, args []string) error {
		method, path := http.MethodGet, "/debug/log-levels"
		if len(args) == 1 {
			if !slices.Contains([]string{"debug", "info", "warn", "error"}, args[0]) {
				return usagef("level %q: want debug, info, warn or error", args[0])
			}
			method, path = http.MethodPut, path+"?"+url.Values{"component": {component}, "level": {args[0]}}.Encode()
		} else if component != "" {
			return usagef("--component without a level: want debug, info, warn or error")
		}
		text, err := a.fetch(ctx, method, path)
		if err != nil {
			return err
		}
		var levels map[string]string
		if err := json.Unmarshal(text, &levels); err != nil {
			return fmt.Errorf("read the levels: %w", err)
		}
		if a.json() {
			return printJSON(a.Stdout, levels)
		}
		t := newTable(a.Stdout)
		for _, name := range slices.Sorted(maps.Keys(levels)) {
			t.row(name, levels[name])
		}
		return t.Flush()
	})
}
