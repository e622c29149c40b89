//! Sums over few of many rows: dense by row once touched, begun anew at no cost.

/// Integer sums by (row, column). Rows that were not added to since [`Grid::begin`] read as zero and hold no
/// memory of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    stamp: u32,
    width: usize,
    /// Per row: the stamp under which `sums` holds it, and where.
    rows: Vec<(u32, u32)>,
    sums: Vec<i64>,
    touched: u32,
}

impl Grid {
    /// Forgets every sum; from now on rows have `width` columns.
    pub(crate) fn begin(&mut self, width: usize) {
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.rows.clear();
            self.stamp = 1;
        }
        self.width = width;
        self.sums.clear();
        self.touched = 0;
    }

    /// The sum at `row` and `column`.
    pub(crate) fn get(&self, row: usize, column: usize) -> i64 {
        match self.rows.get(row) {
            Some(&(stamp, at)) if stamp == self.stamp => self.sums[at as usize * self.width + column],
            _ => 0,
        }
    }

    /// Adds `amount` to the sum at `row` and `column`.
    pub(crate) fn add(&mut self, row: usize, column: usize, amount: i64) {
        if self.rows.len() <= row {
            self.rows.resize(row + 1, (0, 0));
        }
        let entry = &mut self.rows[row];
        if entry.0 != self.stamp {
            *entry = (self.stamp, self.touched);
            self.touched += 1;
            self.sums.resize(self.touched as usize * self.width, 0);
        }
        self.sums[entry.1 as usize * self.width + column] += amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_zero_until_added_to_and_again_after_a_new_beginning() {
        let mut grid = Grid::default();
        assert_eq!(grid.get(7, 1), 0);
        grid.begin(2);
        grid.add(7, 1, 5);
        grid.add(7, 1, -2);
        grid.add(0, 0, 9);
        assert_eq!((grid.get(7, 1), grid.get(7, 0), grid.get(0, 0), grid.get(3, 1)), (3, 0, 9, 0));
        grid.begin(2);
        assert_eq!((grid.get(7, 1), grid.get(0, 0)), (0, 0));
        grid.begin(3);
        grid.add(19, 2, 1);
        assert_eq!((grid.get(19, 2), grid.get(7, 1)), (1, 0));
    }

    #[test]
    fn a_stamp_that_wraps_forgets_too() {
        let mut grid = Grid::default();
        grid.begin(1);
        grid.add(1, 0, 4);
        grid.stamp = u32::MAX;
        grid.begin(1);
        assert_eq!(grid.get(1, 0), 0);
    }
}
