DROP TABLE IF EXISTS orders;
DROP TABLE IF EXISTS customers;
DROP TABLE IF EXISTS products;
CREATE TABLE products (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  category TEXT NOT NULL,
  colour TEXT NOT NULL,
  price REAL NOT NULL,
  stock INTEGER NOT NULL
);
CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT NOT NULL,
  joined INTEGER NOT NULL -- the year
);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id),
  product_id INTEGER NOT NULL REFERENCES products (id),
  quantity INTEGER NOT NULL,
  year INTEGER NOT NULL
);
INSERT INTO products VALUES
  (1, 'desk lamp', 'lighting', 'white', 39.9, 14),
  (2, 'floor lamp', 'lighting', 'black', 89.0, 3),
  (3, 'office chair', 'furniture', 'black', 149.0, 7),
  (4, 'bookshelf', 'furniture', 'white', 120.0, 0),
  (5, 'coffee table', 'furniture', 'brown', 75.5, 5),
  (6, 'teapot', 'kitchen', 'green', 24.0, 31),
  (7, 'kettle', 'kitchen', 'silver', 34.5, 12),
  (8, 'frying pan', 'kitchen', 'black', 29.0, 0),
  (9, 'wool blanket', 'textiles', 'red', 55.0, 9),
  (10, 'cushion', 'textiles', 'blue', 15.0, 40),
  (11, 'curtain', 'textiles', 'grey', 48.0, 6),
  (12, 'garden bench', 'garden', 'green', 199.0, 2),
  (13, 'watering can', 'garden', 'green', 18.5, 22),
  (14, 'wall clock', 'decoration', 'silver', 27.0, 11),
  (15, 'picture frame', 'decoration', 'brown', 12.5, 60),
  (16, 'night light', 'lighting', 'yellow', 9.9, 0);
INSERT INTO customers VALUES
  (1, 'Anna Berg', 'Oslo', 2019),
  (2, 'Bruno Costa', 'Lisbon', 2020),
  (3, 'Clara Weiss', 'Vienna', 2018),
  (4, 'Dmitri Ivanov', 'Riga', 2021),
  (5, 'Elena Rossi', 'Milan', 2022),
  (6, 'Farid Haddad', 'Lyon', 2020),
  (7, 'Greta Lind', 'Oslo', 2023),
  (8, 'Hugo Martin', 'Lyon', 2019),
  (9, 'Ines Duarte', 'Porto', 2021),
  (10, 'Jan Novak', 'Prague', 2022);
INSERT INTO orders VALUES
  (1, 1, 1, 2, 2023), (2, 1, 9, 1, 2024), (3, 2, 6, 1, 2023), (4, 3, 3, 4, 2022),
  (5, 3, 5, 1, 2024), (6, 4, 10, 6, 2023), (7, 5, 7, 1, 2024), (8, 6, 12, 1, 2022),
  (9, 7, 2, 1, 2024), (10, 8, 13, 3, 2023), (11, 9, 15, 10, 2024), (12, 10, 14, 2, 2022),
  (13, 2, 11, 4, 2024), (14, 5, 1, 1, 2022), (15, 6, 3, 2, 2024), (16, 8, 6, 2, 2024);
