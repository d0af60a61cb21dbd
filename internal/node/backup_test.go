package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/store"
)

// copied is a store with snapshots of made-up files.
type copied struct {
	store.Driver

	files  map[string][]byte
	opened map[string]int
	held   bool
}

func (c *copied) Capabilities() store.Capabilities {
	all := c.Driver.Capabilities()
	all.Snapshot = func(context.Context) (store.Snapshot, error) {
		if c.held {
			return nil, store.ErrBusy
		}
		c.held = true
		return c, nil
	}
	return all
}

func (c *copied) Files() (list []store.SnapshotFile) {
	for _, name := range []string{"1.sst", "2.sst", "3.log"} {
		list = append(list, store.SnapshotFile{Name: name, Bytes: int64(len(c.files[name])), Immutable: name != "3.log"})
	}
	return list
}

func (c *copied) Open(name string) (io.ReadCloser, error) {
	c.opened[name]++
	return io.NopCloser(bytes.NewReader(c.files[name])), nil
}

func (c *copied) Close() error {
	if !c.held {
		return c.Driver.Close()
	}
	c.held = false
	return nil
}

// fetched is the result of a backup.
type fetched struct {
	files    map[string][]byte
	kept     map[string]bool
	complete bool
	err      error
}

func (r *rig) backup(have ...*kinesinv1.BackupFile) fetched {
	r.Helper()
	client := kinesinv1connect.NewBackupServiceClient(&http.Client{Transport: r.nodes[0].transport}, "http://node", api.ClientOptions()...)
	stream, err := client.Backup(r.ctx, &kinesinv1.BackupRequest{Have: have})
	if err != nil {
		r.Fatal(err)
	}
	got := fetched{files: map[string][]byte{}, kept: map[string]bool{}}
	name := ""
	for stream.Receive() {
		m := stream.Msg()
		if m.File != nil {
			name = m.File.Name
			got.kept[name] = len(m.File.Sha256) > 0
		}
		got.files[name] = append(got.files[name], m.Data...)
		if len(m.Sha256) > 0 {
			if sum := sha256.Sum256(got.files[name]); !bytes.Equal(m.Sha256, sum[:]) {
				r.Errorf("%s has another sum", name)
			}
		}
		got.complete = m.Complete
	}
	got.err = api.FromWire(stream.Err())
	_ = stream.Close()
	return got
}

func haveFile(name string, content []byte) *kinesinv1.BackupFile {
	sum := sha256.Sum256(content)
	return &kinesinv1.BackupFile{Name: name, Bytes: int64(len(content)), Sha256: sum[:]}
}

func TestBackupSendsWhatIsNotThere(t *testing.T) {
	const mib = 1 << 20
	c := &copied{opened: map[string]int{}, files: map[string][]byte{
		"1.sst": bytes.Repeat([]byte("a"), 100*mib), "2.sst": bytes.Repeat([]byte("b"), 1000), "3.log": []byte("log"),
	}}
	over := func(d store.Driver) store.Driver { c.Driver = d; return c }
	inRig(t, drivers{over: over}, 1, nil, func(r *rig) {
		began := time.Now()
		all := r.backup()
		took := time.Since(began)
		if !all.complete || all.err != nil || c.held {
			t.Fatalf("complete: %v, %v", all.complete, all.err)
		}
		for name, content := range c.files {
			if !bytes.Equal(all.files[name], content) || all.kept[name] {
				t.Errorf("%s: %d bytes, want %d", name, len(all.files[name]), len(content))
			}
		}
		if want := 100 * time.Second / 64; took < want || took > want+time.Second {
			t.Errorf("100 MiB took %v, want %v at 64 MiB a second", took, want)
		}

		// Of three named files one is the same, one has other contents, and one is not immutable.
		other := bytes.Repeat([]byte("x"), 1000)
		again := r.backup(haveFile("1.sst", c.files["1.sst"]), haveFile("2.sst", other), haveFile("3.log", c.files["3.log"]), haveFile("4.sst", other))
		if !again.complete || !again.kept["1.sst"] || again.kept["2.sst"] || again.kept["3.log"] || !bytes.Equal(again.files["2.sst"], c.files["2.sst"]) {
			t.Errorf("complete: %v, kept %v", again.complete, again.kept)
		}
		if c.opened["1.sst"] != 1 || c.opened["2.sst"] != 2 {
			t.Errorf("opened %v: the sum of a file that was read is known", c.opened)
		}

		c.held = true
		if busy := r.backup(); busy.complete || !errors.Is(busy.err, api.ErrUnavailable) {
			t.Errorf("while there is another snapshot: %v", busy.err)
		}
		c.held = false
	})
}

func TestBackupOfAStoreThatIsNotEmbedded(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		if got := r.backup(); !errors.Is(got.err, api.ErrUnsupported) || got.complete {
			t.Errorf("%v, want ErrUnsupported", got.err)
		}
	})
}

func TestAServerThatStopsEndsItsBackup(t *testing.T) {
	c := &copied{opened: map[string]int{}, files: map[string][]byte{"1.sst": make([]byte, 64<<20)}}
	over := func(d store.Driver) store.Driver { c.Driver = d; return c }
	inRig(t, drivers{over: over}, 1, nil, func(r *rig) {
		time.AfterFunc(500*time.Millisecond, func() { r.nodes[0].node.draining.Store(true) })
		began := time.Now()
		if got := r.backup(); !errors.Is(got.err, api.ErrUnavailable) || got.complete || c.held {
			t.Errorf("%v, complete: %v", got.err, got.complete)
		}
		if took := time.Since(began); took > 600*time.Millisecond {
			t.Errorf("it took %v to notice", took)
		}
	})
}
