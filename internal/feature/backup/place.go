package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/blobplace"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk/blobs"
)

// Parts of a place.
const (
	pointsName = "points"
	piecesName = "pieces"
	claimsName = "claims"
)

// Place has recovery points, the pieces that they name, and claims. It is safe for concurrent use.
type Place struct {
	location               string
	points, pieces, claims blobplace.Place
}

// OpenPlace opens a directory, which it makes if it does not exist, or s3://BUCKET/PREFIX. A directory that holds
// anything else is refused with ErrPlace.
func OpenPlace(ctx context.Context, location string) (*Place, error) {
	if err := checkDir(location); err != nil {
		return nil, err
	}
	p, prefix := &Place{location: location}, location
	if !strings.HasSuffix(prefix, "://") {
		prefix = strings.TrimRight(prefix, "/")
	}
	for name, part := range map[string]*blobplace.Place{pointsName: &p.points, piecesName: &p.pieces, claimsName: &p.claims} {
		opened, err := blobplace.Open(ctx, prefix+"/"+name)
		if err != nil {
			p.Close()
			return nil, err
		}
		*part = bounded{opened}
	}
	return p, nil
}

// callMax bounds a call to a place, which may hang when the network does.
const callMax = 5 * time.Minute

// bounded is a part of a place whose calls end.
type bounded struct{ blobplace.Place }

func (b bounded) Put(ctx context.Context, name string, data []byte) error {
	ctx, cancel := clock.Within(ctx, clock.Real(), callMax)
	defer cancel()
	return b.Place.Put(ctx, name, data)
}

func (b bounded) PutNew(ctx context.Context, name string, data []byte) error {
	ctx, cancel := clock.Within(ctx, clock.Real(), callMax)
	defer cancel()
	return b.Place.PutNew(ctx, name, data)
}

func (b bounded) Get(ctx context.Context, name string, bytesMax int64) ([]byte, error) {
	ctx, cancel := clock.Within(ctx, clock.Real(), callMax)
	defer cancel()
	return b.Place.Get(ctx, name, bytesMax)
}

func (b bounded) Delete(ctx context.Context, name string) error {
	ctx, cancel := clock.Within(ctx, clock.Real(), callMax)
	defer cancel()
	return b.Place.Delete(ctx, name)
}

func (b bounded) List(ctx context.Context, each func(blobs.Entry) error) error {
	ctx, cancel := clock.Within(ctx, clock.Real(), callMax)
	defer cancel()
	return b.Place.List(ctx, each)
}

// isURL reports whether a location is no path.
func isURL(location string) bool { return strings.Contains(location, "://") }

func checkDir(location string) error {
	if isURL(location) {
		return nil
	}
	entries, err := os.ReadDir(location)
	if errors.Is(err, os.ErrNotExist) && location != "" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%q %w: %w", location, ErrPlace, err)
	}
	for _, e := range entries {
		if name := e.Name(); name != pointsName && name != piecesName && name != claimsName && name != "lost+found" {
			return fmt.Errorf("%s %w: it holds %s, which is no part of one; name a directory that is new, empty or holds backups", location, ErrPlace, name)
		}
	}
	return nil
}

// Close closes the place.
func (p *Place) Close() {
	for _, part := range []blobplace.Place{p.points, p.pieces, p.claims} {
		if part != nil {
			_ = part.Close() // nothing is open for writing
		}
	}
}

// Point names a recovery point. The order of claims, and then of time, is that of history.
type Point struct {
	Claim   int
	Created time.Time
}

const pointTime = "20060102T150405.000000Z"

func (p Point) name() string {
	return fmt.Sprintf("%06d-%s", p.Claim, p.Created.UTC().Format(pointTime))
}

var pointForm = regexp.MustCompile(`^([0-9]{6,9})-([0-9]{8}T[0-9]{6}\.[0-9]{6}Z)$`)

func pointOf(name string) (p Point, ok bool) {
	found := pointForm.FindStringSubmatch(name)
	if found == nil {
		return p, false
	}
	claim, numberErr := strconv.Atoi(found[1])
	created, err := time.Parse(pointTime, found[2])
	return Point{claim, created}, err == nil && numberErr == nil
}

func (p Point) compare(other Point) int {
	if p.Claim != other.Claim {
		return p.Claim - other.Claim
	}
	return p.Created.Compare(other.Created)
}

// Points lists the recovery points in the order of history.
func (p *Place) Points(ctx context.Context) (all []Point, err error) {
	err = p.points.List(ctx, func(e blobs.Entry) error {
		if point, is := pointOf(e.Name); is {
			all = append(all, point)
		}
		return nil
	})
	slices.SortFunc(all, Point.compare)
	return all, err
}

// Find returns the recovery point of a time: the newest that is not later, or the newest of all for the zero time. If
// there is none ErrNone says which there are.
func (p *Place) Find(ctx context.Context, at time.Time) (Point, error) {
	all, err := p.Points(ctx)
	if err != nil {
		return Point{}, err
	}
	for _, point := range slices.Backward(all) {
		if at.IsZero() || !point.Created.After(at) {
			return point, nil
		}
	}
	if len(all) == 0 {
		return Point{}, fmt.Errorf("%w in %s", ErrNone, p.location)
	}
	return Point{}, fmt.Errorf("%w in %s that old: its oldest recovery point is of %s, the newest of %s", ErrNone, p.location,
		all[0].Created.Format(time.RFC3339Nano), all[len(all)-1].Created.Format(time.RFC3339Nano))
}

// Manifest reads what a recovery point has.
func (p *Place) Manifest(ctx context.Context, point Point) (Manifest, error) {
	content, err := p.points.Get(ctx, point.name(), manifestBytesMax)
	if err != nil {
		return Manifest{}, err
	}
	m, err := decodeManifest(content)
	if err != nil {
		return m, fmt.Errorf("recovery point %s: %w", point.name(), err)
	}
	return m, nil
}

// piece reads a piece of a file, and checks it.
func (p *Place) piece(ctx context.Context, f *File, n int) ([]byte, error) {
	data, err := p.pieces.Get(ctx, f.Pieces[n], f.pieceBytes(n))
	switch {
	case errors.Is(err, blobs.ErrNotFound):
		return nil, fmt.Errorf("%w: piece %d of %s is missing: %w", ErrDamaged, n, f.Name, err)
	case errors.Is(err, blobs.ErrTooLarge):
		return nil, fmt.Errorf("%w: piece %d of %s: %w", ErrDamaged, n, f.Name, err)
	case err != nil:
		return nil, err
	}
	if sumOf(data) != f.Pieces[n] || int64(len(data)) != f.pieceBytes(n) {
		return nil, fmt.Errorf("%w: piece %d of %s has changed: %s", ErrDamaged, n, f.Name, f.Pieces[n])
	}
	return data, nil
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
