package zones_test

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/zones"
)

func TestEveryEmbeddedZoneLoads(t *testing.T) {
	t.Parallel()
	d := zones.Open()
	if len(d.Names()) < 590 || len(d.Version()) != len("2026f") || d.Source() != d.Version()+", embedded" {
		t.Fatalf("%d names, %s", len(d.Names()), d.Source())
	}
	for _, name := range d.Names() {
		zone, err := d.Load(name)
		if err != nil || zone.String() != name {
			t.Errorf("%s: %v, %v", name, zone, err)
		}
	}
}

func TestSummerTimeIsThatOfTheZone(t *testing.T) {
	t.Parallel()
	berlin, err := zones.Open().Load("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		"2026-03-29T00:59:59Z": "2026-03-29T01:59:59+01:00",
		"2026-03-29T01:00:00Z": "2026-03-29T03:00:00+02:00",
		"2090-07-01T00:00:00Z": "2090-07-01T02:00:00+02:00", // beyond the transitions that are listed
	} {
		instant, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := instant.In(berlin).Format(time.RFC3339); got != want {
			t.Errorf("%s is %s, want %s", at, got, want)
		}
	}
}

func TestUnknownZoneOffersTheNearest(t *testing.T) {
	t.Parallel()
	d := zones.Open()
	for name, want := range map[string]string{
		"Europe/Berln":          "did you mean Europe/Berlin",
		"europe/berlin":         "did you mean Europe/Berlin",
		"Berlin":                "did you mean Europe/Berlin",
		"New York":              "did you mean America/New_York",
		"America/NewYork":       "did you mean America/New_York",
		"Asia/Calcuta":          "did you mean Asia/Calcutta",
		"Local":                 "want an IANA name such as Europe/Berlin",
		"../../etc/passwd":      "unknown zone",
		"Europe":                "unknown zone",
		"+VERSION":              "unknown zone",
		strings.Repeat("x", 65): "at most 64 bytes, this one has 65",
	} {
		if _, err := d.Load(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
	for _, name := range []string{"", "UTC"} {
		if zone, err := d.Load(name); err != nil || zone != time.UTC {
			t.Errorf("%q: %v, %v", name, zone, err)
		}
	}
}

// A database of the system counts only when it says that it is newer, and what it lacks is embedded.
func TestNewerDatabaseOfTheSystemIsUsed(t *testing.T) {
	t.Parallel()
	for version, used := range map[string]bool{
		"tzdata.zi=# version 2099a\n# more\n": true,
		"+VERSION=2099a\n":                    true,
		"tzdata.zi=# version 2020a\n":         false,
		"tzdata.zi=# version unknown\n":       false,
		"other=2099a":                         false,
	} {
		dir := t.TempDir()
		name, content, _ := strings.Cut(version, "=")
		write(t, filepath.Join(dir, name), []byte(content))
		write(t, filepath.Join(dir, "Europe", "Berlin"), fileOf(t, "Asia/Tokyo"))
		d := zones.Open(filepath.Join(dir, "missing"), dir)
		want := map[bool]int{true: 9, false: 1}[used]
		if got := winterHours(t, d, "Europe/Berlin"); got != want || strings.HasSuffix(d.Source(), dir) != used {
			t.Errorf("%q: Berlin is %d hours ahead, want %d; %s", version, got, want, d.Source())
		}
		if got := winterHours(t, d, "Europe/Paris"); got != 1 {
			t.Errorf("%q: Paris is %d hours ahead, want 1", version, got)
		}
	}
}

func winterHours(t *testing.T, d *zones.Database, name string) int {
	t.Helper()
	zone, err := d.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	_, seconds := time.Date(2026, 1, 1, 0, 0, 0, 0, zone).Zone()
	return seconds / 3600
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func fileOf(t *testing.T, name string) []byte {
	t.Helper()
	archive, err := zip.OpenReader("zoneinfo.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	f, err := archive.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
