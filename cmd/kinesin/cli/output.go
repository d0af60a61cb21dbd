package cli

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// Forms of results.
const (
	formatText = "text"
	formatJSON = "json"
)

func (a *app) outputFlag(flags *pflag.FlagSet) {
	a.output = formatText
	flags.VarP(choiceValue{&a.output, []string{formatText, formatJSON}}, "output", "o", "`FORM` of results: text or json")
	settings(flags, "output")
}

func (a *app) json() bool { return a.output == formatJSON }

// printJSON writes one value and a newline.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// reasonOf is the reason of a refusal as it stands in JSON results: "not_found".
func reasonOf(err error) string {
	reason := kinesinv1.Reason_REASON_INTERNAL
	if p := api.ProblemOf(err); p != nil {
		reason = p.Reason
	}
	return strings.ToLower(strings.TrimPrefix(reason.String(), "REASON_"))
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
	data, err := marshal(v)
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.w, lead+data)
	return err
}

func (a *arrayWriter) end() error {
	text := "\n]\n"
	if !a.begun {
		text = "[]\n"
	}
	_, err := io.WriteString(a.w, text)
	return err
}

func marshal(v any) (string, error) {
	var b strings.Builder
	err := printJSON(&b, v)
	return strings.TrimSuffix(b.String(), "\n"), err
}
