package cli

import (
	"bytes"
	"testing"

	"github.com/kinesin-io/kinesin/sdk"
)

// BenchmarkBatchLine is what a line of a batch costs besides its call.
func BenchmarkBatchLine(b *testing.B) {
	line := &rawLine{number: 1, text: []byte(`{"lambda": "greet", "delay": "3d", "payload": "` + string(bytes.Repeat([]byte("x"), 100)) + `"}` + "\n")}
	result := &sdk.Result{ID: "k1AaH9TkKjeESSM2hg-xWNAAGh_U5Co7s9l8YBAADXgqjuXF0uJt1alrFM"}
	var out bytes.Buffer
	printer := batch{}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseLine(line, ""); err != nil {
			b.Fatal(err)
		}
		printer.format(&out, 1, result)
		out.Reset()
	}
}
