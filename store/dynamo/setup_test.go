package dynamo_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/store/dynamo"
)

func check(t *testing.T, api dynamo.AdminAPI, prefix string) (lines []string) {
	t.Helper()
	found, err := dynamo.Check(t.Context(), api, prefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		lines = append(lines, d.String())
	}
	return lines
}

func TestSetupMakesWhatCheckMisses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := fakedynamo.New(fakedynamo.Config{})
		want := "table P-schedule: table is missing, want ACTIVE\ntable P-tasks: table is missing, want ACTIVE\n" +
			"table P-payloads: table is missing, want ACTIVE\ntable P-control: table is missing, want ACTIVE"
		if got := strings.Join(check(t, db, "P"), "\n"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		created := 0
		for range 3 { // at once, as several servers may
			wg.Go(func() {
				err := dynamo.Setup(t.Context(), db, "P", dynamo.SetupOptions{Changed: func(c dynamo.Change) {
					mu.Lock()
					defer mu.Unlock()
					if c.Action == "create table" {
						created++
					}
				}})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if lines := check(t, db, "P"); len(lines) != 0 || created != 4 {
			t.Errorf("%d tables created, then %v", created, lines)
		}
		err := dynamo.Setup(t.Context(), db, "P", dynamo.SetupOptions{Changed: func(c dynamo.Change) { t.Errorf("again: %+v", c) }})
		if err != nil {
			t.Error(err)
		}
	})
}

// ttlFirst turns TTL on just before each request for that, as another process may.
type ttlFirst struct{ *fakedynamo.DB }

func (api ttlFirst) UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	if out, err := api.DB.UpdateTimeToLive(ctx, in, options...); err != nil {
		return out, err
	}
	return api.DB.UpdateTimeToLive(ctx, in, options...)
}

func TestSetupWhereAnotherProcessTurnsOnTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := ttlFirst{fakedynamo.New(fakedynamo.Config{})}
		if err := dynamo.Setup(t.Context(), api, "P", dynamo.SetupOptions{}); err != nil {
			t.Error(err)
		}
		if lines := check(t, api, "P"); len(lines) != 0 {
			t.Error(lines)
		}
	})
}

func TestSetupFinishesWhatWasBegun(t *testing.T) {
	t.Parallel()
	local := awslocal.Start(t)
	client, prefix := dynamodb.NewFromConfig(local.Config(t)), local.Prefix(t)
	spec := dynamo.Tables(prefix)[1]
	bare := spec
	bare.Indexes = nil
	if _, err := client.CreateTable(t.Context(), dynamo.CreateTableInput(&bare)); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(check(t, client, prefix), "\n")
	for _, want := range []string{
		"table " + spec.Name + ": index dead is missing, want d S HASH, e S RANGE KEYS_ONLY",
		"table " + spec.Name + ": ttl is missing, want x",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if err := dynamo.Setup(t.Context(), client, prefix, dynamo.SetupOptions{}); err != nil {
		t.Fatal(err)
	}
	if lines := check(t, client, prefix); len(lines) != 0 {
		t.Error(lines)
	}
}

func TestSetupLeavesOtherTablesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := fakedynamo.New(fakedynamo.Config{})
		other := dynamo.TableSpec{Name: "P-payloads", Key: []dynamo.KeyPart{{Attribute: "id", Role: "HASH", Type: "B"}}}
		if _, err := db.CreateTable(t.Context(), dynamo.CreateTableInput(&other)); err != nil {
			t.Fatal(err)
		}
		tasks := dynamo.Tables("P")[1]
		tasks.Indexes[0].Projection = "ALL"
		if _, err := db.CreateTable(t.Context(), dynamo.CreateTableInput(&tasks)); err != nil {
			t.Fatal(err)
		}
		_, err := db.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
			TableName: aws.String("P-tasks"), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)},
		})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(check(t, db, "P"), "\n")
		for _, want := range []string{
			"table P-payloads: key is id B HASH, want i S HASH",
			"table P-tasks: index dead is d S HASH, e S RANGE ALL, want d S HASH, e S RANGE KEYS_ONLY",
			"table P-tasks: ttl is ttl, want x",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
		if err := dynamo.Setup(t.Context(), db, "P", dynamo.SetupOptions{}); !errors.Is(err, dynamo.ErrUnfixable) || !strings.Contains(err.Error(), "P-tasks") {
			t.Errorf("got %v, want ErrUnfixable", err)
		}
	})
}

// TestTablesOfAnOlderFormAreRefused checks tables of an older layout, which nothing converts.
func TestTablesOfAnOlderFormAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := fakedynamo.New(fakedynamo.Config{})
		for _, spec := range dynamo.Tables("P") {
			if spec.Name == "P-tasks" {
				spec.Indexes = append(spec.Indexes, dynamo.IndexSpec{
					Name: "wakeups", Projection: "KEYS_ONLY",
					Key: []dynamo.KeyPart{{Attribute: "p", Role: "HASH", Type: "S"}, {Attribute: "w", Role: "RANGE", Type: "S"}},
				})
			}
			if err := makeTable(db, &spec); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute) // until they are made
		want := "table P-tasks: index wakeups is of an older version, whose rows this one cannot use and nothing converts, " +
			"want none: choose another --aws-prefix, or delete the tables of this one with all their tasks"
		if got := strings.Join(check(t, db, "P"), "\n"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		err := dynamo.Setup(t.Context(), db, "P", dynamo.SetupOptions{Changed: func(c dynamo.Change) { t.Errorf("changed: %+v", c) }})
		if !errors.Is(err, dynamo.ErrUnfixable) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrUnfixable with %q", err, want)
		}
	})
}

func TestCheckThatCannotFindOutSaysSo(t *testing.T) {
	t.Parallel()
	db := fakedynamo.New(fakedynamo.Config{})
	db.Faults.Next("DescribeTable", awsfake.Denied, 1)
	if found, err := dynamo.Check(t.Context(), db, "P"); err == nil || len(found) != 0 || !strings.Contains(err.Error(), "P-schedule") {
		t.Errorf("denied: %v, %v", found, err)
	}
	for _, prefix := range []string{"", "a b", "ä", strings.Repeat("x", 21)} {
		_, err := dynamo.Check(t.Context(), db, prefix)
		if err2 := dynamo.Setup(t.Context(), db, prefix, dynamo.SetupOptions{}); !errors.Is(err, dynamo.ErrPrefix) || !errors.Is(err2, dynamo.ErrPrefix) {
			t.Errorf("prefix %q: %v, %v", prefix, err, err2)
		}
	}
}

// TestTablesAsJSON pins the form that other tools read.
func TestTablesAsJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(dynamo.Tables("P")[1])
	want := `{"name":"P-tasks","holds":"keyed, dispatched and ended tasks","key":[{"attribute":"i","role":"HASH","type":"S"}],` +
		`"indexes":[{"name":"dead","key":[{"attribute":"d","role":"HASH","type":"S"},{"attribute":"e","role":"RANGE","type":"S"}],"projection":"KEYS_ONLY"}],"ttl":"x"}`
	if err != nil || string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
