package store_test

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func drawInstant(rt *rapid.T, label string) task.Instant {
	return task.Instant(rapid.SampledFrom([]int64{0, 1, 1_800_000_000_000_000, math.MaxInt64, -1}).Draw(rt, label))
}

func drawUint32(rt *rapid.T, label string) uint32 { return rapid.Uint32().Draw(rt, label) }

func drawTask(rt *rapid.T) task.Task {
	t := task.Task{
		Partition: task.Partition{Lambda: drawUint32(rt, "lambda"), Priority: rapid.Uint8().Draw(rt, "priority"), Shard: rapid.Uint16().Draw(rt, "shard")},
		State:     rapid.SampledFrom(task.States()).Draw(rt, "state"),
		Seq:       rapid.Uint64().Draw(rt, "seq"),
		Due:       drawInstant(rt, "due"), Created: drawInstant(rt, "created"), Wake: drawInstant(rt, "wake"),
		Collection: rapid.String().Draw(rt, "collection"), Key: rapid.String().Draw(rt, "key"), LimitKey: rapid.String().Draw(rt, "limit key"), Worker: rapid.String().Draw(rt, "worker"),
		PayloadSize: drawUint32(rt, "size"),
		Overrides: task.Overrides{
			MaxAttempts: drawUint32(rt, "max"), Timeout: time.Duration(drawInstant(rt, "timeout")),
			BackoffMin: time.Duration(drawInstant(rt, "min")), BackoffMax: time.Duration(drawInstant(rt, "max")),
		},
		Attempt: drawUint32(rt, "attempt"), Failures: drawUint32(rt, "failures"), Lost: drawUint32(rt, "lost"),
		Blamed: drawUint32(rt, "blamed"), Enqueues: drawUint32(rt, "enqueues"),
		Suspect: rapid.Bool().Draw(rt, "suspect"), CancelRequested: rapid.Bool().Draw(rt, "cancel"), Forgotten: rapid.Bool().Draw(rt, "forgotten"),
		Enqueued: drawInstant(rt, "enqueued"), ClaimedAt: drawInstant(rt, "claimed"), Started: drawInstant(rt, "started"),
		FirstStarted: drawInstant(rt, "first"), Ended: drawInstant(rt, "ended"), ExpireAt: drawInstant(rt, "expire"),
	}
	t.WakeRow = task.WakeRow{At: t.Wake, Seq: t.Seq}
	if rapid.Bool().Draw(rt, "apart") {
		t.WakeRow = task.WakeRow{At: drawInstant(rt, "row"), Seq: rapid.Uint64().Draw(rt, "row seq")}
	}
	copy(t.ID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "id"))
	t.ID[15] |= 1
	copy(t.Digest[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(rt, "digest"))
	copy(t.Request[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(rt, "request"))
	copy(t.RedriveRequest[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(rt, "redrive request"))
	if p := rapid.SliceOf(rapid.Byte()).Draw(rt, "payload"); len(p) > 0 {
		t.Payload = p
	}
	for range rapid.IntRange(0, task.HistoryMax).Draw(rt, "attempts") {
		t.History = append(t.History, task.Attempt{
			Number: drawUint32(rt, "number"), Worker: rapid.String().Draw(rt, "worker"), Start: drawInstant(rt, "start"),
			End: drawInstant(rt, "end"), Outcome: task.Outcome(rapid.Uint8Range(0, 8).Draw(rt, "outcome")), Error: rapid.String().Draw(rt, "error"),
		})
	}
	return t
}

func TestTaskRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := drawTask(rt)
		row := store.AppendTask([]byte("before"), &want)[len("before"):]
		got, err := store.DecodeTask(row)
		if err != nil || !reflect.DeepEqual(got, want) {
			rt.Fatalf("got  %+v\nwant %+v\n%v", got, want, err)
		}
		if again, err := store.DecodeWakeup(row); err != nil || !reflect.DeepEqual(again, want) {
			rt.Fatalf("as a wake-up row: got  %+v\nwant %+v\n%v", again, want, err)
		}
		if h, err := store.DecodeHeader(row); err != nil || h != store.HeaderOf(&want) {
			rt.Fatalf("header %+v, %v; want %+v", h, err, store.HeaderOf(&want))
		}
		cut := rapid.IntRange(0, len(row)-1).Draw(rt, "cut")
		if short, err := store.DecodeTask(row[:cut]); err == nil && reflect.DeepEqual(short, want) {
			rt.Fatalf("%d of %d bytes decode as the whole", cut, len(row))
		} else if err != nil && !errors.Is(err, store.ErrCorrupt) {
			rt.Fatalf("truncated row: %v, want ErrCorrupt", err)
		}
	})
}

// TestEveryFieldIsEncoded sets one field of Task at a time, so that a field which is added to the
// type and forgotten in the codec is noticed.
func TestEveryFieldIsEncoded(t *testing.T) {
	base := task.Task{ID: task.ID{1}, State: task.Scheduled}
	kind := reflect.TypeFor[task.Task]()
	for field := range kind.Fields() {
		want := base
		setNonZero(reflect.ValueOf(&want).Elem().FieldByIndex(field.Index))
		row := store.AppendTask(nil, &want)
		got, err := store.DecodeTask(row)
		if field.Name != "Payload" {
			clear(row) // all else is copied
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v, %v", field.Name, got, want, err)
		}
	}
}

// setNonZero fills a value, its fields and one element, with ones.
func setNonZero(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			setNonZero(field)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		setNonZero(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setNonZero(v.Elem())
	case reflect.Array:
		setNonZero(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(1)
	default:
		if v.Type() == reflect.TypeFor[task.State]() {
			v.SetUint(uint64(task.Enqueued))
			return
		}
		v.SetUint(1)
	}
}

// oldRow is a task row that a build of November 2026 wrote, with another value in each of its oldFields fields. It is
// never written anew: stores have such rows.
//
//go:embed testdata/row.hex
var oldRow string

const oldFields = 125

// TestRowsOfBeforeAreRead notices a field that got another number: what rows have under the old one would be lost, or read
// as another field.
func TestRowsOfBeforeAreRead(t *testing.T) {
	row, err := hex.DecodeString(strings.TrimSpace(oldRow))
	if err != nil {
		t.Fatal(err)
	}
	got, err := store.DecodeTask(row)
	fields := 0
	eachSet(reflect.ValueOf(&got).Elem(), "Task", func(field reflect.Value, path string) {
		fields++
		want := reflect.New(field.Type()).Elem()
		if setByPath(want, path); !field.Equal(want) {
			t.Errorf("%s is %v, want %v", path, field, want)
		}
	})
	if err != nil || fields != oldFields {
		t.Errorf("%d fields are set, want %d, %v", fields, oldFields, err)
	}
}

// eachSet calls each for the fields and elements of a value that are not zero and have no parts themselves.
func eachSet(v reflect.Value, path string, each func(v reflect.Value, path string)) {
	switch v.Kind() {
	case reflect.Struct:
		for field, value := range v.Fields() {
			eachSet(value, path+"."+field.Name, each)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			eachSet(v.Index(i), path+"."+strconv.Itoa(i), each)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			eachSet(v.Elem(), path, each)
		}
	default:
		if !v.IsZero() {
			each(v, path)
		}
	}
}

// setByPath sets a field to a value that depends on its path, so that two fields that changed places are noticed.
func setByPath(v reflect.Value, path string) {
	number := uint64(crc32.ChecksumIEEE([]byte(path))%30_000 + 1)
	switch {
	case v.Type() == reflect.TypeFor[task.State](), v.Kind() == reflect.Bool:
		setNonZero(v)
	case v.Kind() == reflect.String:
		v.SetString(path)
	case v.Kind() == reflect.Int64:
		v.SetInt(int64(number))
	case v.Kind() == reflect.Uint8:
		v.SetUint(number%250 + 1)
	default:
		v.SetUint(number)
	}
}

func TestDecodeRefusals(t *testing.T) {
	valid := task.Task{ID: task.ID{1}, State: task.Scheduled, Due: 5}
	row := store.AppendTask(nil, &valid)
	change := func(at int, b byte) []byte { c := bytes.Clone(row); c[at] = b; return c }
	for name, c := range map[string]struct {
		row  []byte
		want error
	}{
		"empty":            {nil, store.ErrCorrupt},
		"newer":            {change(0, 3), store.ErrVersion},
		"newer and short":  {[]byte{9}, store.ErrVersion},
		"older":            {change(0, 1), store.ErrOldForm},
		"older and short":  {[]byte{1}, store.ErrOldForm},
		"bare":             {change(1, byte(task.Unknown)), store.ErrCorrupt},
		"without its row":  {change(1, 0x80|byte(task.Scheduled))[:40], store.ErrCorrupt},
		"version zero":     {change(0, 0), store.ErrCorrupt},
		"no such state":    {change(1, 200), store.ErrCorrupt},
		"unstored state":   {change(1, byte(task.Accepted)), store.ErrCorrupt},
		"end without ends": {change(1, byte(task.Success))[:30], store.ErrCorrupt},
		"bad id length":    {protowire.AppendBytes(protowire.AppendTag(bytes.Clone(row), 1, protowire.BytesType), []byte("x")), store.ErrCorrupt},
		"without an id":    {store.AppendTask(nil, &task.Task{State: task.Scheduled}), store.ErrCorrupt},
		"many attempts":    {store.AppendTask(nil, &task.Task{ID: valid.ID, State: task.Scheduled, History: make([]task.Attempt, task.HistoryMax+1)}), store.ErrCorrupt},
		"many tags":        {store.AppendTask(nil, &task.Task{ID: valid.ID, State: task.Scheduled, Tags: make([]task.Tag, task.TagsMax+1)}), store.ErrCorrupt},
		"number too large": {protowire.AppendVarint(protowire.AppendTag(bytes.Clone(row), 13, protowire.VarintType), 1<<40), store.ErrCorrupt},
	} {
		if got, err := store.DecodeTask(c.row); !errors.Is(err, c.want) || !reflect.DeepEqual(got, task.Task{}) {
			t.Errorf("%s: got %+v, %v; want %v", name, got, err, c.want)
		}
	}
}

// TestBareRows checks that a row which holds only an id is a wake-up row, and none of the unstorable states
// is.
func TestBareRows(t *testing.T) {
	want := task.Task{
		ID: task.ID{1}, Partition: task.Partition{Lambda: 7, Shard: 2}, Seq: 4, Wake: 9, WakeRow: task.WakeRow{At: 9, Seq: 4},
	}
	row := store.AppendTask(nil, &want)
	if got, err := store.DecodeWakeup(row); err != nil || !reflect.DeepEqual(got, want) || !got.IsBare() {
		t.Errorf("got %+v, %v", got, err)
	}
	if h, err := store.DecodeHeader(row); err != nil || h != store.HeaderOf(&want) {
		t.Errorf("header %+v, %v", h, err)
	}
	row[1] = byte(task.Accepted)
	if got, err := store.DecodeWakeup(row); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("an accepted task decodes as %+v, %v", got, err)
	}
}

// TestWakeRowTakesNoBytes checks that a row is no longer than it has to be: only a wake-up row somewhere else than at
// (wake, seq) makes it longer, and an end is written once.
func TestWakeRowTakesNoBytes(t *testing.T) {
	row := task.Task{ID: task.ID{1}, State: task.Enqueued, Seq: 3, Wake: 9, WakeRow: task.WakeRow{At: 9, Seq: 3}}
	size := len(store.AppendTask(nil, &row))
	bare := row
	bare.State = task.Unknown
	if n := len(store.AppendTask(nil, &bare)); n != size || n != 25+2+16 {
		t.Errorf("a bare row has %d bytes, another with the same fields %d", n, size)
	}
	end := row
	end.State, end.Ended, end.ExpireAt = task.Success, 4, 5
	if n := len(store.AppendTask(nil, &end)); n != size+16 {
		t.Errorf("with an end, which its header has, it has %d bytes, without %d", n, size)
	}
	for _, apart := range []task.WakeRow{{At: 8, Seq: 3}, {At: 9, Seq: 2}, {}} {
		row.WakeRow = apart
		if n := len(store.AppendTask(nil, &row)); n != size+16 {
			t.Errorf("with a wake-up row at %+v it has %d bytes, without %d", apart, n, size)
		}
	}
}

// TestUnknownFieldsAreSkipped reads a row of a later release that added fields of every type.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	want := task.Task{ID: task.ID{1}, State: task.Enqueued, Wake: 9, Worker: "w"}
	row := store.AppendTask(nil, &want)
	row = protowire.AppendVarint(protowire.AppendTag(row, 500, protowire.VarintType), 7)
	row = protowire.AppendString(protowire.AppendTag(row, 501, protowire.BytesType), "new")
	row = protowire.AppendFixed64(protowire.AppendTag(row, 502, protowire.Fixed64Type), 7)
	row = protowire.AppendFixed32(protowire.AppendTag(row, 503, protowire.Fixed32Type), 7)
	if got, err := store.DecodeTask(row); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestControlRoundTrip(t *testing.T) {
	want := store.Control{Kind: "gate", Name: "n", Version: 1 << 60, Value: []byte("v")}
	row := store.AppendControl(nil, &want)
	if got, err := store.DecodeControl("gate", "n", row); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := store.DecodeControl("gate", "n", row[:8]); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("short row: %v", err)
	}
	row[0]++
	if _, err := store.DecodeControl("gate", "n", row); !errors.Is(err, store.ErrVersion) {
		t.Errorf("newer row: %v", err)
	}
}

// FuzzDecodeTask checks that no bytes make the decoder panic, that it refuses only with its
// sentinels, and that what it accepts survives another round.
func FuzzDecodeTask(f *testing.F) {
	full := task.Task{
		ID: task.ID{1}, State: task.Dead, Seq: 3, Ended: 4, ExpireAt: 5, Payload: []byte("p"), PayloadSize: 1, Key: "k",
		History: []task.Attempt{{Number: 1, Worker: "w", Start: 1, End: 2, Outcome: task.OutcomeRetriable, Error: "e"}},
	}
	f.Add(store.AppendTask(nil, &full))
	f.Add(store.AppendTask(nil, &task.Task{ID: task.ID{1}, State: task.Scheduled}))
	f.Add(store.AppendTask(nil, &task.Task{ID: task.ID{1}, Seq: 3, Wake: 4, WakeRow: task.WakeRow{At: 4, Seq: 3}}))
	f.Add([]byte{2, 2})
	f.Fuzz(func(t *testing.T, row []byte) {
		var first task.Task
		var err error
		alloctest.AtMost(t, uint64(16<<10+64*len(row)), func() { first, err = store.DecodeWakeup(row) })
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrVersion) && !errors.Is(err, store.ErrOldForm) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		if len(first.Payload) == 0 {
			first.Payload = nil
		}
		second, err := store.DecodeWakeup(store.AppendTask(nil, &first))
		if err != nil || !reflect.DeepEqual(first, second) {
			t.Fatalf("second round: %v\n%+v\n%+v", err, first, second)
		}
	})
}

func benchRow() task.Task {
	return task.Task{
		ID: task.ID{1, 2, 3}, Partition: task.Partition{Lambda: 7, Priority: 1}, State: task.Enqueued, Seq: 2,
		Due: 1_800_000_000_000_000, Created: 1_790_000_000_000_000, Wake: 1_800_000_015_000_000, Enqueued: 1_800_000_000_000_100,
		Collection: "orders", Payload: make([]byte, 200), PayloadSize: 200, Enqueues: 1,
	}
}

func BenchmarkEncodeTask(b *testing.B) {
	t := benchRow()
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = store.AppendTask(buf[:0], &t)
	}
}

func BenchmarkDecodeTask(b *testing.B) {
	t := benchRow()
	row := store.AppendTask(nil, &t)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := store.DecodeTask(row); err != nil {
			b.Fatal(err)
		}
	}
}
