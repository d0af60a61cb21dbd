package main

import (
	_ "embed"
	"fmt"
	"strings"
)

// formulaText is the formula for Homebrew, with VERSION in place of the version and URLS in place of the archives.
//
//go:embed formula.rb
var formulaText string

// compose copies the compose file, so that a release has all that its image needs to start.
func (r *release) compose() error {
	text, err := r.read("deploy/compose.yaml")
	if err != nil {
		return err
	}
	return r.write("compose.yaml", text)
}

// formula writes the formula, with the archives that there are.
func (r *release) formula() error {
	var urls strings.Builder
	for _, p := range r.platforms {
		if p.os == "windows" {
			continue
		}
		sum, err := r.sum(r.base(p) + ".tar.gz")
		if err != nil {
			return err
		}
		system := map[string]string{"linux": "linux", "darwin": "macos"}[p.os]
		cpu := map[string]string{"amd64": "intel", "arm64": "arm"}[p.arch]
		fmt.Fprintf(&urls, "\n  on_%s do\n    on_%s do\n", system, cpu)
		fmt.Fprintf(&urls, "      url \"https://github.com/kinesin-io/kinesin/releases/download/v%s/%s.tar.gz\"\n      sha256 \"%s\"\n", r.version, r.base(p), sum)
		urls.WriteString("    end\n  end\n")
	}
	if urls.Len() == 0 {
		return nil // a release for Windows alone
	}
	return r.write("kinesin.rb", []byte(strings.NewReplacer("VERSION", r.version, "  URLS\n", urls.String()).Replace(formulaText)))
}
