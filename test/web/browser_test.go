package web

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// picturesEnv names a folder that gets pictures: those of docs/how-to/console.md, or with allPicturesEnv all.
const picturesEnv, allPicturesEnv = "KINESIN_PICTURES", "KINESIN_ALL_PICTURES"

// inDocs are the pictures that docs/how-to/console.md shows.
var inDocs = []string{"now-light", "task-dead-light", "why-late", "budget", "died-of-timeout", "redrive", "midnight"}

// actMax is how long one step in the browser may take.
const actMax = 30 * time.Second

//go:embed testdata/axe-core@4.14.1/axe.min.js
var axe string

// chromium returns the program of the browser. Only where nobody can install it, and no CI runs, tests are
// left out.
func chromium(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../../tools/web/install").Output()
	if err == nil {
		return strings.TrimSpace(string(out))
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("no Chromium: %v", err)
	}
	t.Skipf("NOT TESTED: there is no Chromium, and tools/web/install cannot install it: %v", err)
	return ""
}

// browser is a window of Chromium, which notes what goes wrong in its pages.
type browser struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // how chromedp names a window
	at  string          // the server
	// elsewhere is where it may also go: the page of a provider.
	elsewhere string

	mu     sync.Mutex
	wrong  []string
	beyond []string // requests to somewhere else
}

func open(t *testing.T, server string) *browser {
	t.Helper()
	options := append(slices.Clip(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(chromium(t)), chromedp.NoSandbox,
		chromedp.Flag("lang", "en"), chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("disable-dev-shm-usage", true))
	allocated, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocated, chromedp.WithErrorf(t.Logf)) // events that chromedp does not know
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx, at: server}
	chromedp.ListenTarget(ctx, b.heard)
	if err := chromedp.Run(ctx, log.Enable(), network.Enable(), emulation.SetTimezoneOverride("Europe/Berlin")); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return b
}

func (b *browser) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError && e.Entry.Source != log.SourceNetwork || e.Entry.Source == log.SourceSecurity {
			b.wrong = append(b.wrong, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			b.wrong = append(b.wrong, fmt.Sprint("console: ", len(e.Args), " values"))
		}
	case *page.EventJavascriptDialogOpening:
		b.wrong = append(b.wrong, "a page runs script of its data: "+e.Message)
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" && u.Scheme != "blob" && !strings.HasPrefix(e.Request.URL, b.at) && u.Scheme != "about" && (b.elsewhere == "" || !strings.HasPrefix(e.Request.URL, b.elsewhere)) {
			b.beyond = append(b.beyond, e.Request.URL)
		}
	}
}

// do takes steps in the browser.
func (b *browser) do(steps ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, actMax)
	defer cancel()
	if err := chromedp.Run(ctx, steps...); err != nil {
		var where, text string
		_ = chromedp.Run(b.ctx, chromedp.Location(&where), chromedp.Text("main", &text, chromedp.ByQuery))
		b.t.Fatalf("%v\nat %s:\n%s", err, where, text)
	}
}

// open goes to a page of the console, and waits for its script.
func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.at+path), chromedp.WaitReady("footer"))
	b.fine(path)
}

// submit takes steps, the last of which leaves the page, and waits for the next page.
func (b *browser) submit(steps ...chromedp.Action) {
	b.t.Helper()
	var old bool
	b.do(chromedp.Evaluate(`document.body.dataset.old = 'yes', true`, &old))
	b.do(append(steps, chromedp.WaitReady(`body:not([data-old]) footer`, chromedp.ByQuery))...)
}

// fine fails if anything went wrong in the browser.
func (b *browser) fine(where string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.wrong {
		b.t.Errorf("%s: %s", where, text)
	}
	for _, to := range b.beyond {
		b.t.Errorf("%s: a request to %s", where, to)
	}
	b.wrong, b.beyond = nil, nil
}

// eval runs script in the page, past its policy, and reads what it gives.
func (b *browser) eval(script string, into any) {
	b.t.Helper()
	b.do(chromedp.Evaluate(script, into, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// text returns the text of the page.
func (b *browser) text() (text string) {
	b.t.Helper()
	b.do(chromedp.Text("main", &text, chromedp.ByQuery))
	return text
}

// has fails unless the page has a text.
func (b *browser) has(wants ...string) {
	b.t.Helper()
	text := b.text()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			b.t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
}

// look sets the size of the window and the colours.
func (b *browser) look(width, height int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
}

// accessible fails if axe-core finds what keeps people out.
func (b *browser) accessible(where string) {
	b.t.Helper()
	var loaded bool
	b.eval(axe+"; typeof axe === 'object'", &loaded)
	var found string
	// A page that fades in has less contrast until it is there.
	b.eval(`Promise.all(document.getAnimations().map(a => a.finished)).then(() => axe.run(document, {resultTypes: ['violations']})).then(r => JSON.stringify(r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html + ' ' + n.failureSummary)}))))`, &found)
	var violations []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range violations {
		b.t.Errorf("%s: %s (%s): %s", where, v.ID, v.Help, strings.Join(v.Nodes, "\n"))
	}
}

// picture keeps what the window shows, if somebody wants the pictures.
func (b *browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv(picturesEnv)
	if dir == "" || os.Getenv(allPicturesEnv) == "" && !slices.Contains(inDocs, name) {
		return
	}
	var shown []byte
	b.do(chromedp.CaptureScreenshot(&shown))
	decoded, err := png.Decode(bytes.NewReader(shown))
	if err != nil {
		b.t.Fatal(err)
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, paletted(decoded)); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), small.Bytes(), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// paletted returns a picture in the 256 colours that it has most of, which takes a third of the bytes.
func paletted(from image.Image) *image.Paletted {
	counts := map[color.Color]int{}
	bounds := from.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[from.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	to := image.NewPaletted(bounds, colours[:min(len(colours), 256)])
	nearest := map[color.Color]uint8{}
	for c := range counts {
		nearest[c] = uint8(to.Palette.Index(c))
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			to.SetColorIndex(x, y, nearest[from.At(x, y)])
		}
	}
	return to
}

// The docs show the pictures that the tests make, and no others are kept.
func TestDocsShowThePictures(t *testing.T) {
	const root = "../.."
	text := ""
	for _, page := range []string{"docs/how-to/console.md", "README.md"} {
		one, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		text += string(one)
	}
	kept, err := filepath.Glob(filepath.Join(root, "docs/images/console/*"))
	if err != nil || len(kept) != len(inDocs) {
		t.Errorf("%d files are kept, want %d: %v", len(kept), len(inDocs), err)
	}
	for _, name := range inDocs {
		if !strings.Contains(text, "images/console/"+name+".png") || !slices.Contains(kept, filepath.Join(root, "docs/images/console", name+".png")) {
			t.Errorf("no page shows %s, or it is not kept", name)
		}
	}
}
