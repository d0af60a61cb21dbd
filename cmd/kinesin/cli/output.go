package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/cmd/settings"
)

// Formats of results.
const (
	formatText = "text"
	formatWide = "wide" // text with more columns
	formatName = "name" // names alone
	formatJSON = "json"

	formatLogfmt = "logfmt" // of logs
)

// outputFlag adds the flag for the format of results, with formats that the command alone has.
func (a *app) outputFlag(flags *pflag.FlagSet, more ...string) {
	a.output = formatText
	all := slices.Concat([]string{formatText, formatWide, formatName, formatJSON}, more)
	usage := "`FORMAT` of results: text, wide (list has more columns), name (list and get print names alone) or json"
	if len(more) > 0 {
		usage += "; or " + strings.Join(more, " or ")
	}
	flags.VarP(choiceValue{&a.output, all}, "output", "o", usage)
	settings.Mark(flags, "output")
}

func (a *app) json() bool { return a.output == formatJSON }

// warnings returns a logger of warnings and errors to stderr.
func (a *app) warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// print prints a result: v with -o json, which is a message of the API where the result is that of a call; else a line
// of text.
func (a *app) print(v any, format string, args ...any) error {
	if a.json() {
		return printJSON(a.Stdout, v)
	}
	_, err := fmt.Fprintf(a.Stdout, format+"\n", args...)
	return err
}

func (a *app) printLine(v any) error {
	_, err := fmt.Fprintln(a.Stdout, v)
	return err
}

// printJSON writes one value and a newline. A message is as HTTP has it.
func printJSON(w io.Writer, v any) error {
	if m, is := v.(proto.Message); is {
		_, err := w.Write(append(jsonform.Append(nil, m), '\n'))
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// table aligns columns.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// row adds a row. Control characters are escaped before the columns are aligned.
func (t table) row(cells ...string) { fmt.Fprintln(t, api.Visible(strings.Join(cells, "\t"))) }

// fact adds a row with a name and a value, unless the value is empty.
func (t table) fact(name, value string) {
	if value != "" {
		t.row(name, value)
	}
}

// facts adds the rows of facts that have a value.
func (t table) facts(all [][2]string) {
	for _, fact := range all {
		t.fact(fact[0], fact[1])
	}
}

// problemOf returns an error as it stands in a result; nil for nil.
func problemOf(err error) *kinesinv1.Problem {
	p := api.ProblemOf(err)
	if p != nil {
		p.Text = err.Error()
	}
	return p
}

// httpProblemOf returns an error in the form of HTTP; nil for nil.
func httpProblemOf(err error) *api.HTTPProblem {
	if err == nil {
		return nil
	}
	p := api.HTTPProblemOf(problemOf(err))
	return &p
}

// results prints the results for several arguments. With -o json they are an array.
type results struct {
	*app

	array   arrayWriter
	several bool
	failed  bool
}

func (a *app) results(several bool) *results {
	return &results{app: a, array: arrayWriter{w: a.Stdout}, several: several}
}

// add prints the result of an argument: o with -o json, unless it is nil, else by calling text. An error is
// reported on stderr instead of the text, and makes the command fail.
func (r *results) add(arg string, err error, o any, text func() error) error {
	if err != nil {
		r.failed = true
		r.note("%s: %v", shortened(arg), err)
	}
	switch {
	case r.json() && o == nil:
		return nil
	case r.json() && r.several:
		return r.array.add(o)
	case r.json():
		return printJSON(r.Stdout, o)
	case err == nil:
		return text()
	}
	return nil
}

// end completes the output. Its error is errReported if a result was an error.
func (r *results) end() error {
	var failed, err error
	if r.failed {
		failed = errReported
	}
	if r.json() && r.several {
		err = r.array.end("")
	}
	return errors.Join(failed, err)
}

// shortened bounds the length of an argument in a message.
func shortened(arg string) string {
	const most = 100
	if len(arg) <= most {
		return arg
	}
	return strings.ToValidUTF8(arg[:most], "") + "…"
}

// arrayWriter writes a JSON array element by element, one in a line.
type arrayWriter struct {
	w     io.Writer
	begun bool
}

func (a *arrayWriter) add(v any) error {
	lead := ",\n"
	if !a.begun {
		a.begun, lead = true, "[\n"
	}
	var b strings.Builder
	if err := printJSON(&b, v); err != nil {
		return err
	}
	_, err := io.WriteString(a.w, lead+strings.TrimSuffix(b.String(), "\n"))
	return err
}

// end ends the array, with what follows it.
func (a *arrayWriter) end(rest string) error {
	text := "\n]"
	if !a.begun {
		text = "[]"
	}
	_, err := io.WriteString(a.w, text+rest+"\n")
	return err
}

// visible is a writer of text for people. Payloads, keys and error texts come from others, and may hold what
// a terminal obeys or shows as something else: control characters, and characters that change the direction
// of text or have no width. It writes those as api.Visible does.
type visible struct {
	w      io.Writer
	before func() // is called before each Write, unless it is nil

	mu   sync.Mutex
	rest []byte // the beginning of a character whose end comes with the next Write
}

// Write implements io.Writer. Its count is that of p.
func (v *visible) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.before != nil {
		v.before()
	}
	if len(v.rest) == 0 && isPlain(p) {
		return v.w.Write(p)
	}
	text := slices.Concat(v.rest, p)
	v.rest = nil
	if cut := len(text) - incomplete(text); cut < len(text) {
		v.rest, text = slices.Clone(text[cut:]), text[:cut]
	}
	out := api.AppendVisible(make([]byte, 0, len(text)), text)
	if _, err := v.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// isPlain reports whether a text is of ASCII characters that a terminal shows, as most is.
func isPlain(p []byte) bool {
	for _, c := range p {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// incomplete returns how many bytes at the end are the beginning of a character.
func incomplete(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if utf8.RuneStart(text[len(text)-n]) {
			if utf8.FullRune(text[len(text)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}
