package cli

import (
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// topObject is an overview in JSON.
type topObject struct {
	Windows      []topWindowObject      `json:"windows"`
	Due          []topDueObject         `json:"due"`
	DueAt        string                 `json:"due_at,omitempty"`
	Installation *topInstallationObject `json:"installation,omitempty"`
	Lambdas      []statsObject          `json:"lambdas"`
}

// topWindowObject is what happened in a time until now.
type topWindowObject struct {
	Asked      float64               `json:"asked_seconds"`
	Covered    float64               `json:"covered_seconds"`
	Started    float64               `json:"started_per_second"`
	Failed     float64               `json:"failed_per_second"`
	Ended      map[sdk.State]float64 `json:"ended_per_second"`
	Lateness50 float64               `json:"lateness_p50_ms"`
	Lateness95 float64               `json:"lateness_p95_ms"`
	Lateness99 float64               `json:"lateness_p99_ms"`
}

// topDueObject is how many tasks will be due within a time.
type topDueObject struct {
	Within  float64 `json:"within_seconds"`
	Tasks   int64   `json:"tasks"`
	AtLeast bool    `json:"at_least"`
	Error   int64   `json:"error"`
}

type topInstallationObject struct {
	Workers      int    `json:"workers"`
	Servers      int    `json:"servers"`
	Partitions   int    `json:"partitions"`
	Unowned      int    `json:"unowned_partitions"`
	StoreFull    bool   `json:"store_full"`
	StoreDamaged bool   `json:"store_damaged"`
	NotReady     string `json:"not_ready,omitempty"`
}

func topObjectOf(seen *admin.Overview) topObject {
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	o := topObject{Windows: []topWindowObject{}, Due: []topDueObject{}, DueAt: timeText(seen.DueAt), Lambdas: []statsObject{}}
	for _, w := range seen.Windows {
		o.Windows = append(o.Windows, topWindowObject{
			w.Asked.Seconds(), w.Covered.Seconds(), w.StartedPerSecond, w.FailedPerSecond, orEmpty(w.EndedPerSecond), ms(w.LatenessP50), ms(w.LatenessP95), ms(w.LatenessP99),
		})
	}
	for _, d := range seen.Due {
		o.Due = append(o.Due, topDueObject{d.Within.Seconds(), d.Tasks, d.AtLeast, d.Error})
	}
	if i := seen.Installation; i != nil {
		o.Installation = &topInstallationObject{i.Workers, i.Servers, i.Partitions, i.UnownedPartitions, i.StoreFull, i.StoreDamaged, i.NotReady}
	}
	for i := range seen.Lambdas {
		o.Lambdas = append(o.Lambdas, statsObjectOf(&seen.Lambdas[i]))
	}
	return o
}
