package kit

import "slices"

// sums holds the heights of rows so that both the sum of those before a row and
// the row at a place are found in logarithmic time (a binary indexed tree).
type sums struct {
	heights []float64
	tree    []float64 // tree[i] is the sum of the i&-i heights that end before i
}

func (s *sums) len() int { return len(s.heights) }

func (s *sums) reset(n int, h float64) {
	s.heights = slices.Repeat([]float64{h}, n)
	s.rebuild()
}

func (s *sums) insert(at, n int, h float64) {
	end := at == len(s.heights)
	s.heights = slices.Insert(s.heights, at, slices.Repeat([]float64{h}, n)...)
	if !end || len(s.tree) == 0 {
		s.rebuild()
		return
	}
	for i := at + 1; i <= len(s.heights); i++ { // appending touches nothing that was there
		sum := s.heights[i-1]
		for j := i - 1; j > i-i&-i; j -= j & -j {
			sum += s.tree[j]
		}
		s.tree = append(s.tree, sum)
	}
}

func (s *sums) rebuild() {
	s.tree = make([]float64, len(s.heights)+1)
	for i, h := range s.heights {
		i++
		s.tree[i] += h
		if up := i + i&-i; up < len(s.tree) {
			s.tree[up] += s.tree[i]
		}
	}
}

func (s *sums) at(i int) float64 { return s.heights[i] }

func (s *sums) set(i int, h float64) {
	d := h - s.heights[i]
	s.heights[i] = h
	for i++; i < len(s.tree); i += i & -i {
		s.tree[i] += d
	}
}

// before is the sum of the heights before row i.
func (s *sums) before(i int) float64 {
	var sum float64
	for i = min(max(i, 0), len(s.heights)); i > 0; i -= i & -i {
		sum += s.tree[i]
	}
	return sum
}

func (s *sums) total() float64 { return s.before(len(s.heights)) }

// find is the row at a distance from the top, the last one when it is beyond,
// and the sum before that row.
func (s *sums) find(y float64) (row int, before float64) {
	step := 1
	for step*2 < len(s.tree) {
		step *= 2
	}
	for ; step > 0; step /= 2 {
		if next := row + step; next < len(s.tree) && before+s.tree[next] <= y {
			row = next
			before += s.tree[next]
		}
	}
	if row >= len(s.heights) && row > 0 {
		row--
		before -= s.heights[row]
	}
	return row, before
}
