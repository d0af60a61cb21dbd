package dynamo

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// PrefixMax is the largest length of the prefix that names tables, in characters.
const PrefixMax = 20

// ErrPrefix refuses a prefix that names tables; the text says what is allowed.
var ErrPrefix = errors.New("bad prefix")

var prefixForm = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// CheckPrefix returns an ErrPrefix that says what is wrong with a prefix; nil when it can be used.
func CheckPrefix(prefix string) error {
	if len(prefix) > PrefixMax || !prefixForm.MatchString(prefix) {
		return fmt.Errorf("%w %q: want 1 to %d characters of a-z, A-Z, 0-9, - and _", ErrPrefix, prefix, PrefixMax)
	}
	return nil
}

// TableSpec describes one table as this program needs it. All else (capacity mode, encryption, alarms, tags)
// is the operator's choice.
type TableSpec struct {
	Name    string      `json:"name"`
	Holds   string      `json:"holds"` // what is in it, for a person
	Key     []KeyPart   `json:"key"`   // the hash part, then the range part if there is one
	Indexes []IndexSpec `json:"indexes,omitempty"`
	// TTL is the attribute by which the service deletes rows (Unix seconds); empty for none.
	TTL string `json:"ttl,omitempty"`
}

// KeyPart is one attribute of a key.
type KeyPart struct {
	Attribute string `json:"attribute"`
	Role      string `json:"role"` // HASH or RANGE, DynamoDB's words
	Type      string `json:"type"` // S, N or B
}

// IndexSpec is a global secondary index.
type IndexSpec struct {
	Name       string    `json:"name"`
	Key        []KeyPart `json:"key"`
	Projection string    `json:"projection"` // KEYS_ONLY, INCLUDE or ALL
}

// The attributes of rows; short, since every row is charged for their names.
const (
	attrPartition = "p" // schedule: hash
	attrWake      = "k" // schedule: range, wake and id
	attrID        = "i" // tasks, payloads: hash
	attrDead      = "d" // tasks: hash of dead, the partition; only of dead letters
	attrDeadAt    = "e" // tasks: range of dead, ended and id; only of dead letters
	attrSeq       = "q" // schedule: WakeRow.Seq; tasks: Task.Seq; control: Control.Version
	attrRow       = "r" // the row in the form of package store, or the payload
	attrExpire    = "x" // tasks, payloads: TTL, Unix seconds
	attrKind      = "c" // control: hash
	attrName      = "n" // control: range
)

// The tables, behind the prefix, and the index of tasks.
const (
	scheduleTable = "schedule"
	tasksTable    = "tasks"
	payloadsTable = "payloads"
	controlTable  = "control"
	deadIndex     = "dead"
	// oldIndex was an index of tasks in an older layout that this program cannot use.
	oldIndex = "wakeups"
)

func tableName(prefix, table string) string { return prefix + "-" + table }

// tables are the names of the tables of one prefix, as pointers because requests want those.
type tables struct {
	schedule, tasks, payloads, control *string
}

func newTables(prefix string) tables {
	name := func(table string) *string { return aws.String(tableName(prefix, table)) }
	return tables{schedule: name(scheduleTable), tasks: name(tasksTable), payloads: name(payloadsTable), control: name(controlTable)}
}

// item is a row, or a part of one, as requests have it.
type item = map[string]types.AttributeValue

func textValue(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func bytesValue(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

func numberValue(n uint64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(n, 10)}
}

func textOf(row item, name string) string {
	if v, ok := row[name].(*types.AttributeValueMemberS); ok {
		return v.Value
	}
	return ""
}

func numberOf(row item, name string) uint64 {
	v, ok := row[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(v.Value, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// encodedOf returns the encoded row, or the payload, in a row; nil when it has none.
func encodedOf(row item) []byte {
	if v, ok := row[attrRow].(*types.AttributeValueMemberB); ok {
		return v.Value
	}
	return nil
}

// DeleteControlCommand returns the command of the AWS CLI that deletes a control row.
func DeleteControlCommand(prefix, kind, name string) string {
	return fmt.Sprintf(`aws dynamodb delete-item --table-name %s --key '{%q:{"S":%q},%q:{"S":%q}}'`,
		tableName(prefix, controlTable), attrKind, kind, attrName, name)
}

// Tables describes the tables of a prefix. Setup creates them from it and Check compares with it.
func Tables(prefix string) []TableSpec {
	return []TableSpec{
		{
			Name: tableName(prefix, scheduleTable), Holds: "a wake-up row for every live task, in order of time, with the task itself until it is dispatched",
			Key: key(attrPartition, attrWake),
		},
		{
			Name: tableName(prefix, tasksTable), Holds: "keyed, dispatched and ended tasks",
			Key: key(attrID), TTL: attrExpire,
			Indexes: []IndexSpec{{Name: deadIndex, Key: key(attrDead, attrDeadAt), Projection: "KEYS_ONLY"}},
		},
		{
			Name: tableName(prefix, payloadsTable), Holds: "payloads too large for the row of their task",
			Key: key(attrID), TTL: attrExpire,
		},
		{
			Name: tableName(prefix, controlTable), Holds: "lambdas, leases and other settings",
			Key: key(attrKind, attrName),
		},
	}
}

// key returns a key of text attributes.
func key(attributes ...string) []KeyPart {
	parts := make([]KeyPart, len(attributes))
	for i, a := range attributes {
		parts[i] = KeyPart{Attribute: a, Role: []string{"HASH", "RANGE"}[i], Type: "S"}
	}
	return parts
}
