package cost

import (
	"log/slog"
	"testing"
)

// logger writes what a node has to say to the log of its test.
func logger(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}
