// Package backup writes, checks and reads backups. A place, a directory or a bucket, has recovery points of a
// store, of which a later one adds only what is new. A tar archive has one of them. The package does not know what
// is in the files of a store.
//
// A manifest names all files with their checksums. It is written last; without it there is no backup.
//
//	place:   points/CLAIM-TIME…, pieces/SHA256…, claims/CLAIM…
//	archive: store/NAME…, manifest.json
package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/sdk/blobs"
)

// Sizes of pieces. What grows is cut more finely, since its last piece is put anew each time.
const (
	pieceBytesMax   = 8 << 20
	growingBytesMax = 1 << 20
)

func cutOf(name string) int64 {
	if strings.HasSuffix(name, ".sst") {
		return pieceBytesMax
	}
	return growingBytesMax
}

// base is a recovery point on which the next one builds: pieces that it names are in the place already.
type base struct {
	point  Point
	files  map[string]*File
	data   string
	pieces map[string]bool // that it names and that are there
}

// none reports whether there is no such point.
func (b *base) none() bool { return b.point == Point{} }

// newBase returns the base that a recovery point is. All its pieces are there.
func newBase(point Point, m *Manifest) base {
	b := base{point: point, files: make(map[string]*File, len(m.Files)), data: m.Data, pieces: map[string]bool{}}
	for i := range m.Files {
		f := &m.Files[i]
		b.files[f.Name] = f
		for _, sum := range f.Pieces {
			b.pieces[sum] = true
		}
	}
	return b
}

// base returns the newest recovery point as a base, with those of its pieces that have the right size. A damaged one
// is no base.
func (p *Place) base(ctx context.Context) (base, error) {
	point, err := p.Find(ctx, time.Time{})
	if errors.Is(err, ErrNone) {
		return newBase(Point{}, &Manifest{}), nil
	}
	if err != nil {
		return base{}, err
	}
	m, err := p.Manifest(ctx, point)
	if errors.Is(err, ErrDamaged) {
		return newBase(point, &Manifest{}), nil
	}
	if err != nil {
		return base{}, err
	}
	sizes := map[string]int64{}
	for i := range m.Files {
		for n, sum := range m.Files[i].Pieces {
			sizes[sum] = m.Files[i].pieceBytes(n)
		}
	}
	b := newBase(point, &m)
	clear(b.pieces)
	err = p.pieces.List(ctx, func(e blobs.Entry) error {
		if size, named := sizes[e.Name]; named && size == e.Bytes {
			b.pieces[e.Name] = true
		}
		return nil
	})
	return b, err
}

// has reports whether all pieces of a file are in the place.
func (b *base) has(f *File) bool {
	return !slices.ContainsFunc(f.Pieces, func(sum string) bool { return !b.pieces[sum] })
}

// newPoint is a recovery point that is being put.
type newPoint struct {
	place *Place
	base  *base
	fresh map[string]bool // pieces that were put, for this point or for one that failed
	m     Manifest
	sent  int64 // bytes
}

// piece puts a piece that is not there, and returns its sum.
func (w *newPoint) piece(ctx context.Context, data []byte) (string, error) {
	sum := sumOf(data)
	if w.base.pieces[sum] || w.fresh[sum] {
		return sum, nil
	}
	if err := w.place.pieces.Put(ctx, sum, data); err != nil {
		return "", err
	}
	w.fresh[sum] = true
	w.sent += int64(len(data))
	return sum, nil
}

// errBaseGone means that the base of a new recovery point was pruned meanwhile.
var errBaseGone = errors.New("the recovery point on which it builds was removed meanwhile")

// commit puts the point itself, by which it is there, and returns it as a base. Then it looks whether its base is still
// there: who prunes deletes points before he reads which there are, so either he has seen this one, or this sees that
// the base is gone, and takes the point back.
func (w *newPoint) commit(ctx context.Context, claim int, created time.Time) (base, error) {
	point := Point{claim, created.UTC().Truncate(time.Microsecond)}
	if !w.base.none() && w.base.point.Claim == claim && !point.Created.After(w.base.point.Created) {
		point.Created = w.base.point.Created.Add(time.Microsecond) // the clock went back
	}
	w.m.Format, w.m.Created = format, point.Created
	if err := w.m.check(); err != nil {
		return base{}, err
	}
	content, err := w.m.encode()
	if err != nil {
		return base{}, err
	}
	if err := w.place.points.Put(ctx, point.name(), content); err != nil {
		return base{}, err
	}
	w.sent += int64(len(content))
	if !w.base.none() {
		all, err := w.place.Points(ctx)
		if err == nil && !slices.Contains(all, w.base.point) {
			err = errBaseGone
		}
		if err != nil {
			return base{}, errors.Join(err, w.place.points.Delete(ctx, point.name()))
		}
	}
	return newBase(point, &w.m), nil
}

// Pruning: pointsAll is how long every recovery point stays, and pieceYoung how old a piece is before it goes that no
// point names, which may be about to.
const (
	pointsAll  = time.Hour
	pieceYoung = 24 * time.Hour
	// freshMax is how long a writer relies on pieces that it put and that no point names yet.
	freshMax = pieceYoung / 2
)

// outdated returns the points, in the order of history, that go: those older than keep, and of those older than an hour
// all but the last of each hour. The newest stays, and so does keeping.
func outdated(all []Point, now time.Time, keep time.Duration) (gone []Point) {
	for i, p := range all {
		if i == len(all)-1 {
			break
		}
		age := now.Sub(p.Created)
		next := all[i+1]
		sameHour := next.Claim == p.Claim && next.Created.Truncate(time.Hour).Equal(p.Created.Truncate(time.Hour)) && now.Sub(next.Created) > pointsAll
		if age > keep || age > pointsAll && sameHour {
			gone = append(gone, p)
		}
	}
	return gone
}

// Prune removes recovery points that are older than keep, all but one an hour of those that are older than an hour, and
// then the pieces that no point names. The newest point stays. It returns how many points and pieces it removed.
func (p *Place) Prune(ctx context.Context, now time.Time, keep time.Duration) (points, pieces int, err error) {
	all, err := p.Points(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, point := range outdated(all, now, keep) {
		if err := p.points.Delete(ctx, point.name()); err != nil {
			return points, 0, err
		}
		points++
	}
	named, err := p.named(ctx)
	if err != nil {
		return points, 0, err
	}
	var gone []string
	err = p.pieces.List(ctx, func(e blobs.Entry) error {
		if !named[e.Name] && now.Sub(e.Put) > pieceYoung && (sumForm.MatchString(e.Name) || strings.HasPrefix(e.Name, blobs.TempPrefix)) {
			gone = append(gone, e.Name)
		}
		return nil
	})
	for _, name := range gone {
		if err != nil {
			break
		}
		if err = p.pieces.Delete(ctx, name); err == nil {
			pieces++
		}
	}
	return points, pieces, err
}

// named returns all pieces that a point names. A point that cannot be read stops the pruning, since it may name any.
func (p *Place) named(ctx context.Context) (map[string]bool, error) {
	all, err := p.Points(ctx)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, point := range all {
		m, err := p.Manifest(ctx, point)
		if errors.Is(err, blobs.ErrNotFound) {
			continue // another pruned it
		}
		if err != nil {
			return nil, fmt.Errorf("nothing is pruned: %w", err)
		}
		b := newBase(point, &m)
		maps.Copy(named, b.pieces)
	}
	return named, nil
}

// Errors that callers distinguish.
var (
	// ErrDamaged means that a backup fails its checks.
	ErrDamaged = errors.New("damaged backup")
	// ErrNone means that there is no complete backup.
	ErrNone = errors.New("no complete backup")
	// ErrPlace means that a backup cannot be written to a place; the text says why.
	ErrPlace = errors.New("cannot hold a backup")
)

// format is the version of the format.
const format = 2

// Bounds of what is read.
const (
	filesMax         = 1 << 20
	manifestBytesMax = 256 << 20
	nameBytesMax     = 200
	pieceBytesCeil   = 64 << 20
)

const manifestName = "manifest.json"

// Manifest lists the content of a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"` // by the server's clock; the backup has all that was acknowledged before
	// Data is the id of the data directory, if its server wrote the backup by itself: in one directory a data file
	// never gets the name of another.
	Data  string `json:"data,omitempty"`
	Files []File `json:"files"`
}

// File is one file of a store.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"` // in hexadecimal digits; of files that came over the API
	// Pieces are the checksums of the parts of the file in a place, each of PieceBytes but the last.
	PieceBytes int64    `json:"piece_bytes,omitempty"`
	Pieces     []string `json:"pieces,omitempty"`
}

// pieceBytes returns the size of a file's piece.
func (f *File) pieceBytes(n int) int64 { return min(f.PieceBytes, f.Bytes-int64(n)*f.PieceBytes) }

// Bytes returns the size of all files together.
func (m *Manifest) Bytes() (sum int64) {
	for i := range m.Files {
		sum += m.Files[i].Bytes
	}
	return sum
}

// encode returns the manifest as one line of JSON, and a line with the sum of the first.
func (m *Manifest) encode() ([]byte, error) {
	line, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	line = append(line, '\n')
	return fmt.Appendf(line, "%x\n", sha256.Sum256(line)), nil
}

func decodeManifest(content []byte) (m Manifest, err error) {
	line, rest, _ := bytes.Cut(content, []byte{'\n'})
	sum := sha256.Sum256(append(slices.Clip(line), '\n'))
	if string(rest) != hex.EncodeToString(sum[:])+"\n" {
		return m, fmt.Errorf("%w: its manifest fails its checksum", ErrDamaged)
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("%w: manifest: %w", ErrDamaged, err)
	}
	if m.Format != format {
		return m, fmt.Errorf("the backup has format %d, this program reads %d: restore it with the version that made it", m.Format, format)
	}
	return m, m.check()
}

func (m *Manifest) check() error {
	if len(m.Files) > filesMax {
		return fmt.Errorf("%w: %d files, want %d at most", ErrDamaged, len(m.Files), filesMax)
	}
	names := make(map[string]bool, len(m.Files))
	for i := range m.Files {
		f := &m.Files[i]
		if err := checkName(f.Name); err != nil {
			return err
		}
		if names[f.Name] || f.Bytes < 0 || !f.hasSums() {
			return fmt.Errorf("%w: file %s is there twice, or has no size or sum", ErrDamaged, f.Name)
		}
		names[f.Name] = true
	}
	return nil
}

// hasSums reports whether a file has a checksum for all of it, and of the right form.
func (f *File) hasSums() bool {
	if f.PieceBytes == 0 {
		return len(f.Pieces) == 0 && sumForm.MatchString(f.SHA256)
	}
	for _, sum := range f.Pieces {
		if !sumForm.MatchString(sum) {
			return false
		}
	}
	return f.PieceBytes > 0 && f.PieceBytes <= pieceBytesCeil && int64(len(f.Pieces)) == (f.Bytes+f.PieceBytes-1)/f.PieceBytes
}

// readManifest reads a manifest to its end.
func readManifest(r io.Reader) (Manifest, error) {
	content, err := io.ReadAll(io.LimitReader(r, manifestBytesMax+1))
	if err != nil {
		return Manifest{}, err
	}
	if len(content) > manifestBytesMax {
		return Manifest{}, fmt.Errorf("%w: a manifest of more than %d bytes", ErrDamaged, manifestBytesMax)
	}
	return decodeManifest(content)
}

var (
	nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	sumForm  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// checkName refuses names that could lead out of a directory.
func checkName(name string) error {
	if len(name) > nameBytesMax || !nameForm.MatchString(name) {
		return fmt.Errorf("%w: it names a file %.40q", ErrDamaged, name)
	}
	return nil
}
