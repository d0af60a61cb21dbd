package cli

import (
	"cmp"
	"context"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/internal/zones"
)

type versionObject struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	TZ      string `json:"tz"` // the tz database by which crons fire here
}

func (a *app) versionCommand() *cobra.Command {
	return a.acting(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
	}, func(context.Context, []string) error {
		v := versionObject{Version: a.version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, TZ: zones.Default().Source()}
		return a.print(v, "kinesin %s (%s, %s/%s, tz database %s)", v.Version, v.Go, v.OS, v.Arch, v.TZ)
	})
}

// version returns what was set at link time, or else what `go install` recorded.
func (a *app) version() string {
	if info, found := debug.ReadBuildInfo(); found {
		return cmp.Or(a.Version, info.Main.Version)
	}
	return cmp.Or(a.Version, "unknown")
}
