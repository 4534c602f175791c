-- The shop's tables and what is in them; :products is how many products there are.
CREATE TABLE categories (id serial PRIMARY KEY, name text UNIQUE NOT NULL, title text NOT NULL);
CREATE TABLE products (
    id serial PRIMARY KEY, slug text UNIQUE NOT NULL, name text NOT NULL, description text NOT NULL,
    category_id integer NOT NULL REFERENCES categories, price_cents integer NOT NULL, rating real NOT NULL,
    stock integer NOT NULL);
CREATE TABLE reviews (
    id serial PRIMARY KEY, product_id integer NOT NULL REFERENCES products, author text NOT NULL,
    stars integer NOT NULL, words text NOT NULL);
CREATE TABLE users (id serial PRIMARY KEY, name text UNIQUE NOT NULL, full_name text NOT NULL, password text NOT NULL);
CREATE TABLE cart_lines (
    cart text NOT NULL, product_id integer NOT NULL REFERENCES products, count integer NOT NULL,
    PRIMARY KEY (cart, product_id));
CREATE TABLE orders (
    number text PRIMARY KEY, user_id integer NOT NULL REFERENCES users, total_cents integer NOT NULL,
    state text NOT NULL, placed_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE jobs (id bigserial PRIMARY KEY, order_number text NOT NULL);
CREATE TABLE views (count bigint NOT NULL);
CREATE TABLE audit (id bigserial PRIMARY KEY, entry text NOT NULL);
ALTER TABLE audit ALTER COLUMN entry SET STORAGE EXTERNAL;

INSERT INTO views VALUES (0);
INSERT INTO categories (name, title)
    SELECT lower(word) || 's', word || 's' FROM unnest(ARRAY[
        'Lamp', 'Chair', 'Table', 'Shelf', 'Kettle', 'Cup', 'Plate', 'Bowl', 'Knife', 'Spoon', 'Blanket', 'Pillow',
        'Clock', 'Mirror', 'Vase', 'Basket', 'Candle', 'Rug', 'Stool', 'Bench']) AS word;
INSERT INTO products (slug, name, description, category_id, price_cents, rating, stock)
    SELECT lower(adjective || '-' || noun || '-' || number), adjective || ' ' || noun || ' ' || number,
           'A ' || lower(adjective) || ' ' || lower(noun) || ' of ' || material || ', made in ' || place ||
           '. ' || repeat('It lasts, it is light, and it goes with what you have. ', 1 + number % 12),
           category, 500 + (number * 7919) % 50000, (number * 31 % 50) / 10.0, 100000
    FROM (SELECT number, 1 + number % 20 AS category,
                 (ARRAY['Old', 'Small', 'Green', 'Plain', 'Round', 'Quiet', 'Tall', 'Bright'])[1 + number / 20 % 8] AS adjective,
                 (ARRAY['oak', 'steel', 'glass', 'wool', 'clay', 'linen', 'copper'])[1 + number % 7] AS material,
                 (ARRAY['Lisbon', 'Gdansk', 'Turin', 'Bergen', 'Ghent'])[1 + number % 5] AS place,
                 (SELECT trim(trailing 's' from title) FROM categories WHERE id = 1 + number % 20) AS noun
          FROM generate_series(1, :products) AS number) AS made;
INSERT INTO reviews (product_id, author, stars, words)
    SELECT 1 + (number * 7919) % :products, 'Customer ' || number % 997, 1 + number % 5,
           repeat('As described. ', 1 + number % 20)
    FROM generate_series(1, :products * 4) AS number;
INSERT INTO users (name, full_name, password)
    SELECT 'user' || number, 'User ' || number, :'password' FROM generate_series(1, 500) AS number;

CREATE INDEX products_category ON products (category_id, id);
CREATE INDEX products_rating ON products (rating DESC, id);
CREATE INDEX reviews_product ON reviews (product_id, id);
CREATE INDEX orders_user ON orders (user_id, placed_at);
CREATE INDEX products_search ON products USING gin (to_tsvector('simple', name || ' ' || description));
ANALYZE;
