package controller

// Controller runs the tasks of one process.
type Controller struct {
	cfg Config
}

// New checks a configuration. It starts nothing.
func New(cfg Config) (*Controller, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Controller{cfg: cfg}, nil
}
