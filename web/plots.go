package web

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/overview"
)

// plot is what the script of the page draws: the times of the points in seconds since 1970, and for each
// series its name and values.
type plot struct {
	Times  []int64   `json:"times"`
	Names  []string  `json:"names"`
	Values [][]value `json:"values"`
	Until  int64     `json:"until,omitempty"` // values from then on are at least so high; 0: all are known
}

// value is a value of a plot; NaN, which is null to the script, where there is none.
type value float64

// MarshalJSON implements json.Marshaler.
func (v value) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(v)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(v), 'g', 6, 64), nil
}

func (c *call) json(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Vary", "Accept-Encoding")
	send(c.w, c.r, text, nil)
	return nil
}

// plotMinutes sends what happened in each minute of the last hour, of a lambda or of all. The function of returns the
// values of a minute of which so many seconds are over.
func (c *call) plotMinutes(names []string, of func(m *overview.Minute, seconds float64) []value) error {
	lambda := c.r.URL.Query().Get("lambda")
	switch {
	case lambda == "" && !c.seesFleet():
		return c.fleetDenied()
	case lambda != "" && !c.sees(lambda):
		return problemError{problem{403, "Permission denied", c.caller.Denied(access.Read, lambda).Error() + ".", ""}}
	}
	p := plot{Names: names, Values: make([][]value, len(names))}
	minutes := c.Source.Minutes(lambda, minutesPlotted)
	for i := range minutes {
		seconds := 60.0
		if i == len(minutes)-1 {
			seconds = max(1, c.now().Sub(minutes[i].At).Seconds())
		}
		p.Times = append(p.Times, minutes[i].At.Unix())
		for k, v := range of(&minutes[i], seconds) {
			p.Values[k] = append(p.Values[k], v)
		}
	}
	return c.json(p)
}

// plotRates sends starts and ends per second by the minute, and of all lambdas together failures; those of one have a
// plot of their own.
func plotRates(c *call) error {
	names := []string{"started", "ended", "failed"}
	if c.r.URL.Query().Get("lambda") != "" {
		names = names[:2]
	}
	return c.plotMinutes(names, func(m *overview.Minute, seconds float64) []value {
		all := []value{value(float64(m.Started) / seconds), value(float64(m.Ended) / seconds), value(float64(m.Failed) / seconds)}
		return all[:len(names)]
	})
}

// plotLateness sends by the minute how late half and nearly all of the tasks started, in seconds.
func plotLateness(c *call) error {
	return c.plotMinutes([]string{"p50", "p99"}, func(m *overview.Minute, _ float64) []value {
		if m.Started == 0 {
			return []value{value(math.NaN()), value(math.NaN())}
		}
		return []value{value(m.Late50.Seconds()), value(m.Late99.Seconds())}
	})
}

// plotFailures sends how many attempts failed in each minute.
func plotFailures(c *call) error {
	return c.plotMinutes([]string{"failed attempts"}, func(m *overview.Minute, _ float64) []value { return []value{value(m.Failed)} })
}

// plotForecast sends how many tasks are due in each half hour of a day.
func plotForecast(c *call) error {
	p := plot{Names: []string{"due", "± (of an estimate)"}, Values: [][]value{{}, {}}}
	if f := c.live.due(false); f != nil {
		all, until := c.halfHours(f)
		for i := range all {
			p.Times = append(p.Times, all[i].From.Truncate(forecastStep).Unix()) // bars are as wide as the least distance
			p.Values[0] = append(p.Values[0], value(all[i].Due))
			p.Values[1] = append(p.Values[1], value(all[i].Error))
		}
		if !until.IsZero() {
			p.Until = until.Unix()
		}
	}
	return c.json(p)
}
