//! Sums over few of many rows: dense by row once touched, begun anew at no cost.

/// Integer sums by (row, column). Rows that were not added to since [`Grid::begin`] read as zero and hold no
/// memory of their own.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    stamp: u32,
    width: usize,
    /// Per row: the stamp under which `sums` holds it, and where.
    rows: Vec<(u32, u32)>,
    /// The sums of rows that were touched, and zeros for those to come.
    sums: Vec<i64>,
    touched: u32,
}

impl Default for Grid {
    fn default() -> Self {
        Grid { stamp: 1, width: 0, rows: Vec::new(), sums: Vec::new(), touched: 0 }
    }
}

impl Grid {
    /// Forgets every sum.
    pub(crate) fn begin(&mut self) {
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.rows.clear();
            self.stamp = 1;
        }
        let used = self.touched as usize * self.width;
        self.sums[..used].fill(0);
        self.touched = 0;
    }

    /// The sum at `row` and `column`.
    #[inline]
    pub(crate) fn get(&self, row: usize, column: usize) -> i64 {
        match self.rows.get(row) {
            Some(&(stamp, at)) if stamp == self.stamp && column < self.width => {
                self.sums[at as usize * self.width + column]
            }
            _ => 0,
        }
    }

    /// The sums of `row`, as far as there are any; all others are zero.
    #[inline]
    pub(crate) fn peek(&self, row: usize) -> &[i64] {
        match self.rows.get(row) {
            Some(&(stamp, at)) if stamp == self.stamp => {
                let first = at as usize * self.width;
                &self.sums[first..first + self.width]
            }
            _ => &[],
        }
    }

    /// Adds `amount` to the sum at `row` and `column`.
    #[inline]
    pub(crate) fn add(&mut self, row: usize, column: usize, amount: i64) {
        self.row(row, column + 1)[column] += amount;
    }

    /// The sums of `row`, at least `width` of them.
    #[inline]
    pub(crate) fn row(&mut self, row: usize, width: usize) -> &mut [i64] {
        let at = match self.rows.get(row) {
            Some(&(stamp, at)) if stamp == self.stamp && width <= self.width => at,
            _ => self.touch(row, width),
        };
        let first = at as usize * self.width;
        &mut self.sums[first..first + self.width]
    }

    /// Where the sums of `row` are from now on.
    #[inline(never)]
    fn touch(&mut self, row: usize, width: usize) -> u32 {
        if width > self.width {
            self.widen(width);
        }
        if self.rows.len() <= row {
            self.rows.resize(row + 1, (0, 0));
        }
        let entry = &mut self.rows[row];
        if entry.0 != self.stamp {
            *entry = (self.stamp, self.touched);
            self.touched += 1;
            let used = self.touched as usize * self.width;
            if self.sums.len() < used {
                self.sums.resize(used * 2, 0);
            }
        }
        entry.1
    }

    /// From now on rows have `width` columns; what they sum stays.
    fn widen(&mut self, width: usize) {
        let mut sums = vec![0; self.touched as usize * width * 2];
        if self.width > 0 {
            for (wide, narrow) in sums.chunks_mut(width).zip(self.sums.chunks(self.width)) {
                wide[..self.width].copy_from_slice(narrow);
            }
        }
        (self.width, self.sums) = (width, sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_zero_until_added_to_and_again_after_a_new_beginning() {
        let mut grid = Grid::default();
        assert_eq!(grid.get(7, 1), 0);
        grid.add(7, 1, 5);
        grid.add(7, 1, -2);
        grid.add(0, 0, 9);
        assert_eq!((grid.get(7, 1), grid.get(7, 0), grid.get(0, 0), grid.get(3, 1)), (3, 0, 9, 0));
        grid.begin();
        assert_eq!((grid.get(7, 1), grid.get(0, 0)), (0, 0));
    }

    #[test]
    fn a_further_column_leaves_the_sums_of_the_others() {
        let mut grid = Grid::default();
        grid.add(7, 1, 5);
        grid.add(0, 0, 9);
        grid.add(19, 4, 1);
        assert_eq!((grid.get(7, 1), grid.get(0, 0), grid.get(19, 4), grid.get(7, 4)), (5, 9, 1, 0));
    }

    #[test]
    fn a_stamp_that_wraps_forgets_too() {
        let mut grid = Grid::default();
        grid.add(1, 0, 4);
        grid.stamp = u32::MAX;
        grid.begin();
        assert_eq!(grid.get(1, 0), 0);
    }
}
