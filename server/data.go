package server

import (
	"context"
	"log/slog"

	"github.com/kinesin-io/kinesin/store/pebble"
)

// DataCounts counts what VerifyData found.
type DataCounts = pebble.Counts

// DataSalvaged counts what SalvageData copied.
type DataSalvaged = pebble.Salvaged

// VerifyData reads all of a data directory that no server uses, and changes nothing. It calls found with each
// problem, and returns an error if it could not look.
func VerifyData(ctx context.Context, dir string, log *slog.Logger, found func(problem string)) (DataCounts, error) {
	return pebble.Verify(ctx, dir, pebble.Config{Logger: log}, found)
}

// SalvageData copies what can still be read of a data directory that no server uses to a new one. It calls
// lost with each thing that cannot be read.
func SalvageData(ctx context.Context, dir, out string, log *slog.Logger, lost func(loss string)) (DataSalvaged, error) {
	return pebble.Salvage(ctx, dir, out, pebble.Config{Logger: log}, lost)
}
