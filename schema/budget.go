package schema

// How many steps a check may take. One depends on the size of its value, so that what is sent buys what
// is done: an ordinary value takes a step for some eight bytes.
const (
	anySteps    = 40_000 // for any value
	perStep     = 4      // bytes that add a step
	budgetSteps = 300_000
	fairSteps   = 4_000 // for any value, whatever the checks before it took
	fairPerStep = 8
)

// Budget is what the checks of one request may cost together: as much as the dearest single check, and
// for each as much as an ordinary value of its size takes, so that none is refused for its neighbours.
type Budget struct{ left int }

// NewBudget is a Budget that nothing was taken from.
func NewBudget() *Budget { return &Budget{left: budgetSteps} }

// allowance is what the check of a value of so many bytes may take.
func (b *Budget) allowance(bytes int) int {
	return min(anySteps+bytes/perStep, max(b.left, fairSteps+bytes/fairPerStep))
}

func (b *Budget) take(steps int) { b.left = max(0, b.left-steps) }
