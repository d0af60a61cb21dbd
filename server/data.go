package server

import (
	"context"
	"log/slog"

	"github.com/kinesin-io/kinesin/store/pebble"
)

// DataCounts is what was found in a data directory.
type DataCounts = pebble.Counts

// DataSalvaged is what was copied out of one.
type DataSalvaged = pebble.Salvaged

// VerifyData reads all of a data directory that no server has open, and changes nothing. found is called with
// each thing that is wrong; an error says that it could not be looked at.
func VerifyData(ctx context.Context, dir string, log *slog.Logger, found func(problem string)) (DataCounts, error) {
	return pebble.Verify(ctx, dir, pebble.Config{Logger: log}, found)
}

// SalvageData copies all that can still be read of a data directory that no server has open to a new one.
// lost is called with each thing that cannot be.
func SalvageData(ctx context.Context, dir, out string, log *slog.Logger, lost func(loss string)) (DataSalvaged, error) {
	return pebble.Salvage(ctx, dir, out, pebble.Config{Logger: log}, lost)
}
