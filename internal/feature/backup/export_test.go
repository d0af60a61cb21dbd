package backup

import (
	"context"
	"os"
	"time"

	"github.com/kinesin-io/kinesin/internal/blobplace"
)

// OnSync calls see with the path of each file or directory just before it is synced.
func OnSync(see func(path string)) {
	sync := syncFile
	syncFile = func(f *os.File) error {
		see(f.Name())
		return sync(f)
	}
}

// Wrap puts something between a place and its points, pieces and claims.
func (p *Place) Wrap(wrap func(part string, of blobplace.Place) blobplace.Place) {
	p.points, p.pieces, p.claims = wrap("points", p.points), wrap("pieces", p.pieces), wrap("claims", p.claims)
}

// Tick does what Run does every time.
func (s *Shipper) Tick(ctx context.Context) error { return s.tick(ctx) }

// Name returns the name of a point in a place.
func (p Point) Name() string { return p.name() }

// Outdated returns the times of the points that go.
func Outdated(all []Point, now time.Time, keep time.Duration) (gone []time.Time) {
	for _, p := range outdated(all, now, keep) {
		gone = append(gone, p.Created)
	}
	return gone
}
