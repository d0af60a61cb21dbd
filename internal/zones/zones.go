// Package zones has the time zones of the IANA tz database. It embeds a release of it, says which, and
// reads the files of the operating system instead where they are of a newer one. (Go's time/tzdata can do
// neither: it does not tell its release, and an older database of the system always wins.)
//
// It never uses the zone of the machine it runs on: the same name means the same on all servers that have
// the same release.
package zones

import (
	"archive/zip"
	"bytes"
	"cmp"
	_ "embed" // the database
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// embedded is written by tools/tzdata/update.
//
//go:embed zoneinfo.zip
var embedded []byte

const (
	versionFile  = "+VERSION"
	nameBytesMax = 64 // of a name that is looked up
	zoneBytesMax = 64 << 10
)

// systemDirs are where operating systems keep compiled zones.
var systemDirs = []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}

var versionForm = regexp.MustCompile(`\b20\d\d[a-z]\b`)

// Database is one release of the tz database. It is safe for concurrent use.
type Database struct {
	version string
	dir     string // of the system; empty: embedded
	archive *zip.Reader
	names   []string // of the embedded release, sorted
	loaded  sync.Map // name → *time.Location; bounded by the names that there are
}

// Default returns the newest database of this machine: the embedded one, or that of the system if it says
// that it is newer.
var Default = sync.OnceValue(func() *Database { return Open(systemDirs...) })

// Open returns the newest of the embedded database and those in dirs. A directory that is missing, or does
// not say its release, is left out.
func Open(dirs ...string) *Database {
	archive, err := zip.NewReader(bytes.NewReader(embedded), int64(len(embedded)))
	if err != nil {
		panic("zones: the embedded database is damaged: " + err.Error())
	}
	d := &Database{archive: archive}
	for _, f := range archive.File {
		if f.Name != versionFile {
			d.names = append(d.names, f.Name)
		}
	}
	slices.Sort(d.names)
	d.version = versionForm.FindString(string(d.read(versionFile)))
	for _, dir := range dirs {
		if v := versionOf(dir); v > d.version { // a year, and a letter that counts the releases in it
			d.version, d.dir = v, dir
		}
	}
	return d
}

// versionOf returns the release of a database of the system, from the head of tzdata.zi ("# version 2026f")
// or from +VERSION; empty if neither says it.
func versionOf(dir string) string {
	const headBytes = 64
	for _, name := range []string{"tzdata.zi", versionFile} {
		if head, err := readHead(filepath.Join(dir, name), headBytes); err == nil {
			if v := versionForm.Find(head); v != nil {
				return string(v)
			}
		}
	}
	return ""
}

func readHead(path string, bytesMax int64) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // a directory of the system, and a name that is in the database
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, bytesMax))
}

// Version returns the release, such as "2026f".
func (d *Database) Version() string { return d.version }

// Source says which database it is: "2026f, embedded" or "2027a, of /usr/share/zoneinfo".
func (d *Database) Source() string {
	if d.dir == "" {
		return d.version + ", embedded"
	}
	return d.version + ", of " + d.dir
}

// Names returns the names of the embedded release, sorted. The caller must not change them.
func (d *Database) Names() []string { return d.names }

// Load returns the zone of an IANA name; the empty name is UTC. Names are as the database spells them. The
// error of an unknown one offers the nearest.
func (d *Database) Load(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if known, found := d.loaded.Load(name); found {
		return known.(*time.Location), nil //nolint:forcetypeassert,errcheck // nothing else is stored
	}
	var data []byte
	if isName(name) {
		data = d.read(name)
	}
	if data == nil {
		return nil, d.unknown(name)
	}
	zone, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, fmt.Errorf("zone %s of the database %s: %w", name, d.Source(), err)
	}
	d.loaded.Store(name, zone)
	return zone, nil
}

// read returns the file of a name, nil if there is none. Files that the system leaves out (some of them pack
// old names apart) are read from the embedded release.
func (d *Database) read(name string) []byte {
	if d.dir != "" {
		if data, err := readHead(filepath.Join(d.dir, filepath.FromSlash(name)), zoneBytesMax); err == nil {
			return data
		}
	}
	f, err := d.archive.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, zoneBytesMax))
	if err != nil || len(data) == 0 { // a directory has no contents
		return nil
	}
	return data
}

var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`)

// isName reports whether a name has the form of a zone's, and is safe to use as a path.
func isName(name string) bool { return len(name) <= nameBytesMax && nameForm.MatchString(name) }

func (d *Database) unknown(name string) error {
	if len(name) > nameBytesMax {
		return fmt.Errorf("the name of a zone has at most %d bytes, this one has %d", nameBytesMax, len(name))
	}
	near := d.nearest(name)
	if len(near) == 0 {
		return fmt.Errorf("unknown zone %q: want an IANA name such as Europe/Berlin, America/New_York or UTC", name)
	}
	return fmt.Errorf("unknown zone %q; did you mean %s?", name, strings.Join(near, " or "))
}

const nearestMax = 3 // names that are offered for an unknown one

// nearest returns the names that are most like an unknown one, the best first. Letter case does not count,
// a space is an underscore, and a city alone is enough.
func (d *Database) nearest(name string) []string {
	type candidate struct {
		name     string
		distance int
	}
	sought := strings.ReplaceAll(strings.ToLower(name), " ", "_")
	city := sought[strings.LastIndexByte(sought, '/')+1:]
	var near []candidate
	for _, known := range d.names {
		full := strings.ToLower(known)
		distance := min(
			edits(sought, full),
			edits(city, full[strings.LastIndexByte(full, '/')+1:])+1, // the right region is worth something
		)
		if distance <= max(2, len(sought)/4) && distance < len(sought) {
			near = append(near, candidate{known, distance})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, c := range near {
		if len(names) == nearestMax || c.distance > near[0].distance+1 {
			break
		}
		names = append(names, c.name)
	}
	return names
}

// edits returns how many bytes have to be inserted, deleted or changed to make b of a (Levenshtein).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left, diagonal := i+1, i
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j] = left
			left = min(changed, left+1, diagonal+1)
		}
		row[len(b)] = left
	}
	return row[len(b)]
}
