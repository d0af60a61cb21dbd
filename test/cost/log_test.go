package cost

import (
	"log/slog"
	"testing"
)

// logger writes the log of a node to that of its test.
func logger(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}
