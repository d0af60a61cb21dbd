package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/sdk"
)

// followFileBytesMax bounds a file of what follows, as a line of a batch. The server's bound is that of a
// payload, without those that are blobs.
const followFileBytesMax = 6 << 20

// itemOf returns a task as the SDK schedules it.
func itemOf(w *kinesinv1.ScheduleItem) (sdk.Item, error) {
	item, err := sdkconfig.ItemOf(w)
	if err != nil {
		return sdk.Item{}, err
	}
	return item.(sdk.Item), nil //nolint:errcheck,forcetypeassert // as ItemOf says
}

// edgeIn reads the tasks of an edge, "then", "else" or "finally": a list of them, or one alone.
func edgeIn(edge string, data []byte) (*kinesinv1.ScheduleItem, error) {
	all := &kinesinv1.ScheduleItem{}
	return all, jsonform.DecodeList("the file", data, all, protoreflect.Name(edge))
}

// taskExcept are the fields of a task that the SDK sets, and the one that a line may leave out.
var taskExcept = []string{"?lambda", "request_id", "blob"} //nolint:gochecknoglobals // a list

// taskFields returns the names of the fields of a task, in lines.
func taskFields() string {
	var lines []string
	for names := range slices.Chunk(jsonform.Names(&kinesinv1.ScheduleItem{}, taskExcept...), 11) {
		lines = append(lines, strings.Join(names, ", "))
	}
	return strings.Join(lines, ",\n")
}

// followsIn reads what follows a task: as edgeIn what follows its success, or an object with then, else and finally.
func followsIn(data []byte) (*kinesinv1.ScheduleItem, error) {
	var names map[string]json.RawMessage
	if json.Unmarshal(data, &names) == nil && names["lambda"] == nil && (names["then"] != nil || names["else"] != nil || names["finally"] != nil) {
		lists := &kinesinv1.Followups{}
		_, err := jsonform.DecodeAs("the file", data, lists)
		return &kinesinv1.ScheduleItem{Then: lists.GetThen(), Else: lists.GetElse(), Finally: lists.GetFinally()}, err
	}
	return edgeIn("then", data)
}

// readFollow reads what follows from the file of a flag, or from stdin for "-", and returns an item that has it. Without
// a path there is none.
func (a *app) readFollow(flag, path string, read func(data []byte) (*kinesinv1.ScheduleItem, error)) (item sdk.Item, err error) {
	if path == "" {
		return item, nil
	}
	r, err := a.open(path)
	if err != nil {
		return item, fmt.Errorf("--%s: %w", flag, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, followFileBytesMax+1))
	if err != nil {
		return item, fmt.Errorf("--%s: %w", flag, err)
	}
	if len(data) > followFileBytesMax {
		return item, usagef("--%s: more than %d bytes", flag, followFileBytesMax)
	}
	all, err := read(data)
	if err == nil {
		item, err = itemOf(all)
	}
	if err != nil {
		return item, usagef("--%s: %v", flag, err)
	}
	return item, nil
}
