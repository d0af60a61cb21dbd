// Command seededgo writes an overlay for the go command, in which Go's runtime takes what it decides by
// chance inside a testing/synctest bubble from a seed: which case of a select is taken, in which order a map
// is walked, which goroutine goes on. It prints the path of the overlay (go build -overlay). See
// docs/adr/0027.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A patch replaces a text that occurs exactly once in a file of the runtime. A Go release that changes the
// text makes this command fail, not the simulation lie.
type patch struct{ file, from, to string }

func patches() []patch {
	const draws = "\tif seededIn(getg()) {\n\t\treturn %s\n\t}\n"
	return []patch{
		{"runtime/rand.go", "//go:linkname rand\nfunc rand() uint64 {\n", "//go:linkname rand\nfunc rand() uint64 {\n" + fmt.Sprintf(draws, "seededNext()")},
		{"runtime/select.go", "j := cheaprandn(uint32(norder + 1))", "j := seededn(uint32(norder + 1))"},
		{"runtime/sema.go", "s.ticket = cheaprand() | 1", "s.ticket = seededn(1<<31) | 1"},
		{"runtime/time.go", "t.rand = cheaprand()", "t.rand = seededn(1 << 31)"}, // of timers of one moment
		// A mutex that was waited for too long is handed over in order; how long that is, is told by the
		// clock of the machine.
		{"runtime/sema.go", "func internal_sync_nanotime() int64 {\n", "func internal_sync_nanotime() int64 {\n\tif seededIn(getg()) {\n\t\treturn getg().bubble.now\n\t}\n"},
		// The keys of the hash function decide the order of a map, too.
		{"runtime/alg.go", "\t\tkey[i] = bootstrapRand()\n", "\t\tkey[i] = 0x9e3779b97f4a7c15 * uint64(i+1)\n"},
		{"runtime/alg.go", "\t\thashkey[i] = uintptr(bootstrapRand())\n", "\t\thashkey[i] = uintptr(0x9e3779b9 * uint(i+1))\n"},
		// Nothing is preempted because of the time it took. (A garbage collection still may; the simulation
		// turns it off during a run.)
		{"runtime/proc.go", "const forcePreemptNS = 10 * 1000 * 1000 // 10ms", "const forcePreemptNS = 1 << 60"},
		// A goroutine in a system call keeps its processor, however long the call takes.
		{"runtime/proc.go", "func retake(now int64) uint32 {\n", "func retake(now int64) uint32 {\n\tif seeded.on {\n\t\treturn 0\n\t}\n"},
		// A goroutine that becomes runnable goes on next, or after those that wait.
		{
			"runtime/proc.go", "\tif randomizeScheduler && next && randn(2) == 0 {\n\t\tnext = false\n\t}\n\n\tif next {\n\tretryNext:",
			"\tif next && seededIn(gp) && seededNext()&1 == 0 {\n\t\tnext = false\n\t}\n\n\tif next {\n\tretryNext:",
		},
		// The children of a context are cancelled in the order in which they came, not in that of their
		// addresses.
		{"context/context.go", "children map[canceler]struct{} // set", "born uint64\n\tchildren map[canceler]uint64 // set"},
		{"context/context.go", "p.children = make(map[canceler]struct{})", "p.children = make(map[canceler]uint64)"},
		{"context/context.go", "p.children[child] = struct{}{}", "p.born++\n\t\t\tp.children[child] = p.born"},
		{"context/context.go", "for child := range c.children {", "for _, child := range inOrder(c.children) {"},
	}
}

const addedToContext = `package context

func inOrder(children map[canceler]uint64) []canceler {
	all := make([]canceler, 0, len(children))
	for child := range children {
		i := len(all)
		all = append(all, child)
		for ; i > 0 && children[all[i-1]] > children[child]; i-- {
			all[i] = all[i-1]
		}
		all[i] = child
	}
	return all
}
`

// added is the source of the random numbers. All goroutines of a bubble run on one processor (GOMAXPROCS=1),
// so no lock is needed.
const added = `package runtime

import "unsafe"

var seeded struct {
	on    bool
	state uint64
}

//go:nosplit
func seededIn(gp *g) bool { return seeded.on && gp != nil && gp.bubble != nil }

// seededn is a number below n: from the seed inside of the bubble, any outside.
//
//go:nosplit
func seededn(n uint32) uint32 {
	if seededIn(getg()) {
		return uint32((uint64(uint32(seededNext())) * uint64(n)) >> 32)
	}
	return cheaprandn(n)
}

// seededNext is splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
//
//go:nosplit
func seededNext() uint64 {
	seeded.state += 0x9e3779b97f4a7c15
	z := seeded.state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

//go:linkname runtime_seed
func runtime_seed(on bool, seed uint64) {
	seeded.on, seeded.state = on, seed
	getg().m.p.ptr().schedtick = 0
}

//go:linkname runtime_seedState
func runtime_seedState() uint64 { return seeded.state }

var _ unsafe.Pointer
`

func main() {
	dir := flag.String("dir", filepath.Join(os.TempDir(), "kinesin-seededgo"), "`folder` to write to; what is there for the same Go is used again")
	flag.Parse()
	path, err := write(*dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "seededgo:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

func write(dir string) (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src")
	files := map[string]string{"runtime/seeded.go": added, "context/seeded.go": addedToContext}
	for _, p := range patches() {
		text, have := files[p.file]
		if !have {
			data, err := os.ReadFile(filepath.Join(root, p.file))
			if err != nil {
				return "", err
			}
			text = string(data)
		}
		if n := strings.Count(text, p.from); n != 1 {
			return "", fmt.Errorf("%s of this Go has the text %q %d times, want once: this release needs patches of its own", p.file, p.from, n)
		}
		files[p.file] = strings.Replace(text, p.from, p.to, 1)
	}
	return place(dir, root, files)
}

// place writes the files under a name that follows from what is in them, so that the build cache knows them
// again.
func place(dir, root string, files map[string]string) (string, error) {
	all, err := json.Marshal(files) // sorted by name
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(all, root...))
	dir = filepath.Join(dir, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	replaced := map[string]string{}
	for name, text := range files {
		path := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		replaced[filepath.Join(root, name)] = path
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o644)
}
