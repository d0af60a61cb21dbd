package cli

import (
	"cmp"
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/cmd/settings"
	"github.com/kinesin-io/kinesin/internal/logging"
	"github.com/kinesin-io/kinesin/internal/loglimit"
)

// logFlags are the flags of the log on stderr.
type logFlags struct{ level, format string }

func (l *logFlags) add(f *pflag.FlagSet) {
	l.level, l.format = cmp.Or(l.level, "info"), formatText
	f.Var(choiceValue{&l.level, []string{"debug", "info", "warn", "error"}}, "log-level", "lowest `LEVEL` to log: debug, info, warn or error")
	f.Var(choiceValue{&l.format, []string{formatText, formatLogfmt, formatJSON}}, "log-format", "`FORMAT` of the log on stderr: text, which is logfmt, or json")
	settings.Mark(f, "log-level", "log-format")
}

// logger returns a logger to w, which limits repeated messages.
func (l *logFlags) logger(w io.Writer) *slog.Logger {
	logger, _ := l.controlled(w)
	return logger
}

// sayer returns what tells people how the process stands, on stderr. With a log of JSON that is for programs, and nothing is said.
func (l *logFlags) sayer(a *app) func(format string, args ...any) {
	if l.format == formatJSON {
		return func(string, ...any) {}
	}
	return a.note
}

// controlled also returns what changes the levels.
func (l *logFlags) controlled(w io.Writer) (*slog.Logger, *logging.Log) {
	var level slog.Level
	_ = level.UnmarshalText([]byte(l.level)) // the flag accepts levels only
	control, h := logging.New(w, l.format == formatJSON, level)
	return slog.New(loglimit.New(h)), control
}
